"""Values are found by the identity of their tuple, and the cache stays small."""

from epp.endpoints.identity_cache import IdentityCache


def test_a_value_is_found_for_the_same_object_only():
    cache: IdentityCache[str] = IdentityCache()
    key, equal = tuple([1, 2]), tuple([1, 2])  # noqa: C409 - literals would be one object

    cache.put(key, "found")

    assert cache.get(key) == "found"
    assert cache.get(equal) is None


def test_a_later_value_replaces_the_first():
    cache: IdentityCache[int] = IdentityCache()
    key = (1,)
    cache.put(key, 1)
    cache.put(key, 2)

    assert cache.get(key) == 2


def test_the_65th_tuple_takes_the_place_of_the_oldest():
    cache: IdentityCache[int] = IdentityCache()
    keys = [(n, "x") for n in range(65)]
    for n, key in enumerate(keys):
        cache.put(key, n)

    assert [cache.get(key) for key in keys] == [None, *range(1, 65)]
