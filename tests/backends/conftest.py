"""What tests of a real PostgreSQL server share."""

import psycopg_pool
import psycopg_pool.pool
import pytest


@pytest.fixture
def own_pools(monkeypatch):
    """Every memory has connections of its own, also where other tests share theirs (``make test-postgres``)."""
    monkeypatch.setattr(psycopg_pool, "ConnectionPool", psycopg_pool.pool.ConnectionPool)


@pytest.fixture
def server(postgres_server):
    return postgres_server


@pytest.fixture
def name(server):
    """The name of an empty database of the server."""
    return server.create()


@pytest.fixture
def url(server, name):
    return server.url(name)
