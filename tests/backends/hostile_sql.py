"""Statements that a role might try on a store's database to see or change what it may not, at random from a seed."""

import itertools

from memory_retrievers.backends.postgres.schema import OTHER_TABLES, TABLES_BY_SCOPE

STORE = (*TABLES_BY_SCOPE, *OTHER_TABLES, "projection", "schema_version", "memories_3", "passage_contents_0")
TRANSITIONS = ("added", "was", "is_now", "removed")
TRIGGER_FUNCTIONS = (
    *("memories_added", "memories_changed", "memories_removed", "passages_added", "passages_removed"),
    *("memories_numbered", "passages_numbered", "number_is_drawn", "number_stays"),
)
COLUMNS = ("id", "scope_id", "row", "content", "scope", "version", "memory", "passage", "term", "target", "claimed")

PAYLOAD = """
    BEGIN CREATE TABLE public.taken (); EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN UPDATE public.memories SET content = 'taken'; EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN ALTER TABLE public.scopes DISABLE ROW LEVEL SECURITY; EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN GRANT ALL ON public.memories_1 TO tenant_a; EXCEPTION WHEN OTHERS THEN NULL; END;
"""
"""What code does that comes to run as somebody else: it leaves its mark on the store, its owner, or its rights."""


class Hostile:
    """A source of statements.

    Args:
        choice: Where its choices come from.
        settings: The names of the server's settings.
        catalogs: The names of the server's tables and views.
    """

    def __init__(self, choice, *, settings, catalogs):
        self.choice, self.settings, self.catalogs = choice, settings, catalogs
        self.count = itertools.count()
        self.kinds = [getattr(self, name) for name in dir(type(self)) if name.startswith("do_")]

    def statement(self):
        return self.choice.choice(self.kinds)()

    def one_of(self, *given):
        return self.choice.choice(given)

    def table(self):
        """Of the store, by whatever name the search path makes of it, or one of the tenant's own."""
        name = self.choice.choice([*STORE, "scopes", "memories", *TRANSITIONS])
        return self.one_of("", "public.", "public.", "pg_temp.") + name

    def column(self):
        return self.choice.choice(COLUMNS)

    def value(self):
        return self.one_of("NULL", "1", "7", "'tenant/b'", "'x'", "2147483648", "(SELECT max(id) FROM public.scopes)")

    def where(self):
        spying = "pg_temp.spy({})"
        column = self.column()
        return self.one_of(
            "TRUE", "id = 'own-fact'", f"{column} = {self.value()}", spying.format(f"{column}::text"),
            "scope_id <> 1 OR TRUE", "id::text ~ '.*'", f"{column} IS NOT NULL", "1 / (id::text = 'x')::int = 0",
        )  # fmt: skip

    # What is asked.

    def do_select(self):
        columns = self.one_of(
            "*", "count(*)", "string_agg(t::text, '')", f"max({self.column()}::text)", "pg_temp.spy(t::text)"
        )
        return f"SELECT {columns} FROM {self.table()} t WHERE {self.where()}"

    def do_join(self):
        return f"SELECT * FROM {self.table()} a FULL JOIN {self.table()} b ON {self.one_of('TRUE', 'FALSE')} LIMIT 99"

    def do_catalog(self):
        return f"SELECT * FROM {self.choice.choice(self.catalogs)} ORDER BY random() LIMIT 500"

    def do_look_around(self):
        return self.one_of(
            "SELECT * FROM pg_stats WHERE schemaname = 'public'",
            "SELECT query_to_xml('SELECT * FROM public.memories', true, false, '')",
            "SELECT database_to_xml(true, false, '')",
            "SELECT last_value FROM memory_rows",
            "SELECT nextval('memory_rows'), nextval('passage_ids')",
            "SELECT setval('memory_rows', 1)",
            "SELECT pg_read_file('postgresql.conf')",
            "SELECT lo_import('/etc/passwd')",
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SELECT dblink('', '')",
            "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname LIKE 'memories%'",
            f"SELECT * FROM heap_page_items(get_raw_page('{self.table()}', 0))",
        )

    def do_explain(self):
        return f"EXPLAIN (ANALYZE, VERBOSE) {self.one_of(self.do_select, self.do_change, self.do_delete)()}"

    def do_cursor(self):
        name = f"c{next(self.count)}"
        return f"BEGIN; DECLARE {name} CURSOR WITH HOLD FOR {self.do_select()}; COMMIT; FETCH ALL FROM {name}"

    def do_prepared(self):
        name = f"p{next(self.count)}"
        return f"PREPARE {name} AS {self.one_of(self.do_select, self.do_change)()}; EXECUTE {name}; EXECUTE {name}"

    def do_copy(self):
        return f"COPY {self.table()} TO STDOUT"

    # What is changed.

    def do_change(self):
        change = f"UPDATE {self.table()} t SET {self.column()} = {self.value()} WHERE {self.where()}"
        return self.one_of(change, f"{change} RETURNING *")

    def do_delete(self):
        return f"DELETE FROM {self.table()} t WHERE {self.where()} {self.one_of('', 'RETURNING *')}"

    def do_delete_own(self):
        """Which has the store's triggers run."""
        return self.one_of(
            "DELETE FROM public.memories WHERE row = (SELECT min(row) FROM public.memories)",
            "DELETE FROM public.passages WHERE id = (SELECT min(id) FROM public.passages)",
            "UPDATE public.memories SET content = content || '!', metadata = '{}', expires_at = 1, category = 'note'",
            "DELETE FROM public.memories USING pg_temp.removed WHERE pg_temp.removed.row = memories.row",
        )

    def do_insert(self):
        return self.one_of(
            f"INSERT INTO public.scopes (scope) VALUES ('tenant/{self.one_of('a', 'b', 'a/x', 'b/y')}') RETURNING *",
            f"INSERT INTO public.scopes (id, scope) VALUES ({self.value()}, 'tenant/a/{next(self.count)}')",
            f"INSERT INTO {self.table()} SELECT * FROM {self.table()} ON CONFLICT DO NOTHING RETURNING *",
            f"INSERT INTO {self.table()} DEFAULT VALUES RETURNING *",
            f"""INSERT INTO public.associations (scope_id, source, target, type, strength, auto_generated, created_at)
                SELECT scope_id, row, {self.choice.randrange(12)}, 'semantic', 1, TRUE, 1 FROM public.memories""",
            f"""INSERT INTO public.memories SELECT (jsonb_populate_record(m, jsonb_build_object('row',
                {self.choice.randrange(30)}, 'id', 'n{next(self.count)}'))).* FROM public.memories m LIMIT 1""",
            f"""INSERT INTO public.passages (scope_id, id, memory, part)
                SELECT scope_id, {self.choice.randrange(30)}, row, 'p{next(self.count)}' FROM public.memories""",
        )

    def do_merge(self):
        table = self.table()
        return f"MERGE INTO {table} t USING {self.table()} s ON {self.where()} WHEN MATCHED THEN {self.one_of('DELETE', 'DO NOTHING')}"

    def do_structure(self):
        table = self.table()
        return self.one_of(
            f"TRUNCATE {table} CASCADE", f"DROP TABLE {table} CASCADE", f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
            f"ALTER TABLE {table} DISABLE TRIGGER ALL", f"CREATE INDEX ON {table} ((pg_temp.spy({self.column()}::text)))",
            f"CREATE POLICY p{next(self.count)} ON {table} USING (TRUE)", f"GRANT ALL ON {table} TO PUBLIC",
            "DROP POLICY only_tenant_a ON scopes", f"ALTER TABLE {table} OWNER TO tenant_a", f"VACUUM ANALYZE {table}",
            f"CLUSTER {table}", f"COMMENT ON TABLE {table} IS 'x'", f"CREATE STATISTICS ON id, scope_id FROM {table}",
            "ALTER FUNCTION memories_removed() RESET search_path", "REINDEX SCHEMA public", "DROP OWNED BY tenant_a",
            "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION pg_temp.grab()",
        )  # fmt: skip

    # What a role can make.

    def do_table(self):
        name = self.choice.choice([*STORE, "scopes", "scopes", "associations", *TRANSITIONS])
        return self.one_of(
            f"CREATE TEMP TABLE IF NOT EXISTS {name} AS SELECT * FROM public.{self.one_of('scopes', 'memories', name)}",
            f"CREATE TEMP TABLE IF NOT EXISTS {name} (LIKE public.{self.one_of('scopes', 'memories')} INCLUDING ALL)",
            f"CREATE TEMP VIEW {name} AS SELECT *, pg_temp.spy(t::text) FROM public.{self.one_of('scopes', 'memories')} t",
            f"CREATE TEMP VIEW {name} AS SELECT g AS row, g AS scope_id, pg_temp.spy(g::text) FROM generate_series(1, 20) g",
            f"CREATE TABLE public.{name}_mine ()", f"CREATE SCHEMA {name}", f"DROP TABLE IF EXISTS pg_temp.{name} CASCADE",
            f"DROP VIEW IF EXISTS pg_temp.{name} CASCADE", f"GRANT ALL ON pg_temp.{name} TO PUBLIC",
            f"CREATE TEMP TABLE t{next(self.count)} (a int REFERENCES public.scopes (id) ON DELETE CASCADE)",
            f"CREATE TEMP TABLE t{next(self.count)} () INHERITS (public.scopes)",
            f"CREATE TEMP TABLE t{next(self.count)} PARTITION OF public.memories DEFAULT",
            f"CREATE TEMP SEQUENCE {self.one_of('memory_rows', 'scopes_id_seq')}",
        )  # fmt: skip

    def do_function(self):
        rights = self.one_of("SECURITY DEFINER", "", "IMMUTABLE COST 0.0001", "LEAKPROOF")
        schema = self.one_of("pg_temp", "pg_temp", "public")
        name, given, result = self.one_of(
            ("spy", "text", "boolean"), ("grab", "", "trigger"), ("starts_with", "text, text", "boolean"),
            ("pg_current_xact_id", "", "xid8"), ("unnest", "bigint[]", "bigint"), ("eq", "bigint, bigint", "boolean"),
        )  # fmt: skip
        back = {"boolean": "TRUE", "trigger": "NULL", "xid8": "'1'::xid8", "bigint": "1"}[result]
        note = "RAISE NOTICE '%', $1;" if name == "spy" else ""
        body = f"BEGIN {note} {PAYLOAD} RETURN {back}; END"
        return f"CREATE OR REPLACE FUNCTION {schema}.{name}({given}) RETURNS {result} LANGUAGE plpgsql {rights} AS $${body}$$"

    def do_trigger(self):
        table, name = self.table(), f"t{next(self.count)}"
        function = self.choice.choice(
            ["pg_temp.grab", "pg_temp.grab", *(f"public.{each}" for each in TRIGGER_FUNCTIONS)]
        )
        event, tables = self.one_of(
            ("INSERT", "NEW TABLE AS added"), ("DELETE", "OLD TABLE AS removed"),
            ("UPDATE", "OLD TABLE AS was NEW TABLE AS is_now"),
        )  # fmt: skip
        return self.one_of(
            f"CREATE TRIGGER {name} AFTER {event} ON {table} REFERENCING {tables} EXECUTE FUNCTION {function}()",
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()",
            f"CREATE TRIGGER {name} INSTEAD OF {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()",
        )

    def do_ambush(self):
        """A table in the place of one of the store's, which runs code as soon as somebody changes it."""
        name, event = self.one_of("scopes", "scopes", "associations", "queues"), self.one_of("UPDATE", "DELETE")
        return f"""DROP TABLE IF EXISTS pg_temp.{name} CASCADE;
            CREATE OR REPLACE FUNCTION pg_temp.ambush() RETURNS trigger LANGUAGE plpgsql
            AS $$BEGIN {PAYLOAD} RETURN NULL; END$$;
            CREATE TEMP TABLE {name} AS SELECT * FROM public.{name}; GRANT ALL ON pg_temp.{name} TO PUBLIC;
            CREATE TRIGGER ambush AFTER {event} ON pg_temp.{name} EXECUTE FUNCTION pg_temp.ambush();
            {self.do_delete_own()}"""

    def do_object(self):
        schema, name = self.one_of("pg_temp", "public"), f"o{next(self.count)}"
        return self.one_of(
            f"CREATE OPERATOR {schema}.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = pg_temp.eq)",
            f"CREATE OPERATOR {schema}.> (LEFTARG = bigint, RIGHTARG = int, FUNCTION = pg_temp.eq)",
            f"CREATE TYPE {schema}.json AS (a text)", f"CREATE DOMAIN {schema}.boolean AS text CHECK (pg_temp.spy(VALUE))",
            f"CREATE CAST (text AS {schema}.json) WITH INOUT AS IMPLICIT",
            f"CREATE CAST (bigint AS boolean) WITH FUNCTION {schema}.eq AS IMPLICIT",
            f"CREATE AGGREGATE {schema}.{name} (text) (SFUNC = spy, STYPE = text)",
            f"CREATE RULE {name} AS ON {self.one_of('SELECT', 'UPDATE', 'DELETE')} TO {self.table()} DO ALSO {self.do_select()}",
            f"CREATE MATERIALIZED VIEW {schema}.{name} AS {self.do_select()}",
            f"CREATE ROLE {name}", "SET ROLE postgres", "SET SESSION AUTHORIZATION postgres", "GRANT postgres TO tenant_a",
            "CREATE EXTENSION dblink", "CREATE PUBLICATION p FOR ALL TABLES", "CREATE LANGUAGE plpython3u",
            "CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw",
        )  # fmt: skip

    # How the session is.

    def do_set(self):
        value = self.one_of("on", "off", "0", "1", "", "public", "pg_temp, public", "pg_temp", "postgres", "tenant/b")
        return f"SELECT set_config('{self.choice.choice(self.settings)}', '{value}', {self.one_of('TRUE', 'FALSE')})"

    def do_pretend(self):
        return self.one_of(
            f"SET memory_retrievers.within = '{self.one_of('tenant', 'tenant/b', '', 'tenant/a')}'",
            "SET row_security = off", "SET session_replication_role = replica", "SET search_path = pg_temp, public",
            "RESET ALL", "SET plan_cache_mode = force_custom_plan", "SET search_path = public",
        )  # fmt: skip

    def do_block(self):
        inner = self.one_of(self.do_change, self.do_delete, self.do_table, self.do_insert, self.do_delete_own)()
        return f"DO $do$ BEGIN {inner.replace('RETURNING *', '')}; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM; END $do$"

    def do_transaction(self):
        return self.one_of(
            "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "BEGIN ISOLATION LEVEL SERIALIZABLE"
        )

    def do_lock(self):
        return self.one_of(
            f"BEGIN; LOCK TABLE {self.table()}; COMMIT", f"SELECT * FROM {self.table()} FOR UPDATE",
            f"SELECT pg_try_advisory_lock({self.choice.randrange(99)})", "SELECT pg_advisory_unlock_all()",
            "LISTEN x; NOTIFY x, 'y'", "DISCARD ALL",
        )  # fmt: skip
