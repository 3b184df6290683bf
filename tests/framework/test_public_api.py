import pytest
from support.public_api import LISTINGS, PACKAGES, listing


@pytest.mark.parametrize("package", PACKAGES)
def test_the_public_api_is_what_is_listed(package):
    frozen = (LISTINGS / f"{package}.txt").read_text()
    assert listing(package) == frozen, "meant? then: cd tests && python -m support.public_api"
