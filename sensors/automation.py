"""Declarative automation, off by default: the plan knows better what is missing (params.yaml, fingerprints)."""

import dagster as dg

from sensors import Loaded


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return the sensor that follows the assets' own conditions; by default it is stopped."""
    sensor = dg.AutomationConditionSensorDefinition(
        "declarative_automation",
        target=dg.AssetSelection.all(),
        default_status=dg.DefaultSensorStatus.STOPPED,
        minimum_interval_seconds=60,
        description="Fills missing partitions and rebuilds the leaderboard by Dagster's own conditions, in place of plan and publish.",
    )
    return [sensor]
