"""Resources of assets. Modules are imported when the list is requested, so that one does not load the others."""

from typing import Any


def all_resources() -> dict[str, Any]:
    """Return all resources, with default settings, by the name under which assets ask for them."""
    from resources.benchmark import BenchmarkResource, EncoderResource, StorageResource, workers
    from resources.quality import QualityResource
    from resources.registry import RegistryResource
    from resources.tables import TABLES, StoredTables
    from resources.tracking import TrackingResource
    from traube._core.progress import SILENT

    return {
        "storage": StorageResource(),
        "benchmark": BenchmarkResource(),
        "encoder": EncoderResource(),
        "quality": QualityResource(),
        TABLES: StoredTables(),
        "tracking": TrackingResource(),
        "models": RegistryResource(),
        "workers": workers,
        "progress": SILENT,
    }
