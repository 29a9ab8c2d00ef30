"""What the tests of the checks share."""

import pytest


@pytest.fixture
def exercises_of():
    """The names of a page's exercises: what its module defines and decorates; operators it imports are neither."""

    def names(module):
        decorated = {name: f for name, f in vars(module).items() if hasattr(f, "__wrapped__")}
        return {name for name, f in decorated.items() if f.__module__ == module.__name__}

    return names
