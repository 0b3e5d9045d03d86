"""What tests share of what goes from one CTA of a cluster to another through memory."""

import pytest

from triton_linear.dialect.triton_versions import CLUSTERS_ORDERED, installed_release

ordered = pytest.mark.skipif(
    installed_release() not in CLUSTERS_ORDERED, reason="this Triton keeps conversions through memory to itself"
)
"""The test needs conversions in clusters, through memory, that are this package's."""
unordered = pytest.mark.skipif(
    installed_release() in CLUSTERS_ORDERED, reason="this Triton orders our stores too"
)
"""The test is about a Triton whose barriers order only what it stored itself."""
