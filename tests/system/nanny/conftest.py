import pytest
from nanny_world import World


@pytest.fixture
def world():
    w = World()
    yield w
    w.close()
