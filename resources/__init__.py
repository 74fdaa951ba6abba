"""What assets borrow: storage, the benchmark asked for, the encoder, the workers, tracking
(MLflow), the registry of models and quality.

Modules are imported when the list is asked for, so that one resource does not load the others.
"""

from typing import Any


def all_resources() -> dict[str, Any]:
    """Every resource by the name under which assets ask for it, with everything at its default."""
    from resources.benchmark import BenchmarkResource
    from resources.encoder import EncoderResource
    from resources.quality import QualityResource
    from resources.registry import RegistryResource
    from resources.storage import StorageResource
    from resources.tracking import TrackingResource
    from resources.workers import workers
    from traube.core.progress import SILENT

    return {
        "storage": StorageResource(),
        "benchmark": BenchmarkResource(),
        "encoder": EncoderResource(),
        "quality": QualityResource(),
        "tracking": TrackingResource(),
        "models": RegistryResource(),
        "workers": workers,
        "progress": SILENT,
    }
