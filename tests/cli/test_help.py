"""What the help of commands says holds for what they take."""

import re

from cases import tried_in_one
from typer.main import get_command

from memory_retrievers.cli import app
from memory_retrievers.cli.options import PROFILES
from memory_retrievers.server.settings import MIN_SECRET_LENGTH


def commands(command=None, name=""):
    command = command or get_command(app)
    below = getattr(command, "commands", {})
    found = {} if below else {name: command}
    for word, each in below.items():
        found |= commands(each, f"{name} {word}".strip())
    return found


def help_of(command, option):
    return next((each.help for each in command.params if option in each.opts), None)


WITH_PROFILES = {
    name: told for name, command in commands().items() if (told := help_of(command, "--profile")) is not None
}


@tried_in_one("name, command", commands().items())
def test_a_command_says_what_it_does_and_describes_whatever_it_takes(name, command):
    assert command.help
    assert "\f" not in command.help
    assert [each.name for each in command.params if not each.help] == []


def test_every_command_that_ranks_takes_a_profile():
    ranking = {"retrieve", "explain-missing", "inspect", "eval locomo", "eval own", "eval synthetic"}
    assert ranking <= set(WITH_PROFILES)


@tried_in_one("name", WITH_PROFILES)
def test_a_help_that_names_profiles_names_all_of_them(name):
    named = [word for word in re.findall(r"\w+", WITH_PROFILES[name]) if word in PROFILES]
    assert list(dict.fromkeys(named)) == list(PROFILES)


def test_serving_says_how_long_a_secret_has_to_be():
    assert f"at least {MIN_SECRET_LENGTH} characters" in help_of(commands()["serve"], "--tokens")
