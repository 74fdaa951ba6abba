"""The sensor that sends an alert for failed ticks of sensors and schedules: nothing that starts runs stops in silence."""

from datetime import UTC, datetime

import dagster as dg
from dagster._core.scheduler.instigation import InstigatorTick, TickStatus  # ticks have no public name

from resources.alerts import FILE, WEBHOOK, send_alert
from sensors import Loaded
from traube._core.hashing import digest

SEEN_AT_MOST = 20  # failed ticks of one sensor that are looked at together


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return the sensor that sends an alert for failed ticks, once a day for each cause."""

    @dg.sensor(
        name="failed_ticks",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=30,
        description=f"Writes an alert of failed ticks of sensors and schedules to {FILE}, and posts it to ${WEBHOOK} if that is set.",
    )
    def failed_ticks(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        failed = _list_failed(context.instance, float(context.cursor or 0))
        for tick in failed:
            reason = (tick.error.message if tick.error else "failed").strip().splitlines()[0]
            day = datetime.fromtimestamp(tick.timestamp, UTC).date().isoformat()
            key = f"tick {tick.instigator_name} {digest(reason)} {day}"
            advice = "It is tried again at the next tick; its page in Dagster, under Automation, shows where it failed"
            send_alert(context.log, key, f"a tick of {tick.instigator_name} failed", [reason], advice)
        if failed:
            context.update_cursor(str(max(tick.timestamp for tick in failed)))
        return dg.SkipReason(f"{len(failed)} ticks failed" if failed else "no tick failed")

    return [failed_ticks]


def _list_failed(instance: dg.DagsterInstance, after: float) -> list[InstigatorTick]:
    """Return the failed ticks after a time in seconds since 1970, the earliest first."""
    ticks = [
        tick
        for state in instance.all_instigator_state()
        for tick in instance.get_ticks(
            state.instigator_origin_id,
            state.selector_id,
            after=after,
            limit=SEEN_AT_MOST,
            statuses=[TickStatus.FAILURE],
        )
    ]
    return sorted(ticks, key=lambda tick: tick.timestamp)
