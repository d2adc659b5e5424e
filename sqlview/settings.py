"""The time zone of a session, and the settings of Spark that views rely on.

A session's zone is, in this order: that of the Spark session that `connect` was given, at any
moment; the one named by `connect(timezone=…)` or SET TIME ZONE; that of the Spark session that is
active; UTC. A view means for ever what its text meant in the zone of its CREATE, as text, dates and
clocks go. Rows without a zone that are inserted are of the zone of that moment.

Views compute as Spark does with the values of `RELIED_ON`. Where Spark has others, the same text
means something else there, so CREATE is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from planner.calculus import zones
from planner.calculus.zones import Zone
from planner.errors import SqlViewError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME_ZONE = "spark.sql.session.timeZone"

#: Settings of Spark that decide what a query means, and what they are for a view: Spark's defaults.
RELIED_ON = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.groupByAliases": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "true",
    "spark.sql.legacy.allowStarWithSingleTableIdentifierInCount": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.percentileDiscCalculation": "false",
    "spark.sql.legacy.scalarSubqueryCountBugBehavior": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
    "spark.sql.legacy.statisticalAggregate": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false",
    "spark.sql.optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled": "false",
    "spark.sql.optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled": "false",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}


class Settings:
    """`given`: the Spark session of the session's owner; `active`: the one that is there now, if
    any, without starting one.

    Raises: UnsupportedError for a zone that is not known, or that the given Spark session has not.
    All that asks a Spark session raises SqlViewError if that does not answer.
    """

    def __init__(
        self,
        given: SparkSession | None,
        active: Callable[[], SparkSession | None],
        timezone: str | None,
    ) -> None:
        self._given = given
        self._active = active
        self._named: Zone | None = None
        #: All that was set when nothing was wrong.
        self._checked: str | None = None
        if timezone is not None:
            zone = known_zone(timezone)
            if given is not None and self.zone() != zone:
                raise UnsupportedError(
                    f"the time zone {timezone} is not that of the Spark session",
                    detail=f"It has {TIME_ZONE} = {_setting(given, TIME_ZONE)}, by which its own "
                    "queries go.",
                    hint=f'Call spark.conf.set("{TIME_ZONE}", "{timezone}"), or leave timezone '
                    "out.",
                )
            self._named = zone

    def zone(self) -> Zone:
        """The session's time zone at this moment.

        Raises: UnsupportedError if Spark's is not known here.
        Cost: with a Spark session, a call to its JVM (about 0.3 ms).
        """
        if self._given is None and self._named is not None:
            return self._named
        spark = self._spark()
        return zones.UTC if spark is None else known_zone(_setting(spark, TIME_ZONE))

    def set_zone(self, name: str) -> None:
        """SET TIME ZONE: for what comes after it; a given Spark session takes it too.

        Raises: UnsupportedError if it is not known.
        """
        self._named = known_zone(name)
        if self._given is not None:
            self._given.conf.set(TIME_ZONE, self._named.id)

    def check(self) -> None:
        """Raises: UnsupportedError if queries mean something else to Spark than to views.

        Cost: with a Spark session, a call to its JVM; one for each setting if any was set since
        the last time.
        """
        spark = self._spark()
        if spark is None:
            return
        said = all_set(spark)
        if said is not None and said == self._checked:
            return
        self._check(spark)
        self._checked = said

    def _check(self, spark: SparkSession) -> None:
        for name, wanted in RELIED_ON.items():
            found = _setting(spark, name, wanted)
            if found.casefold() != wanted.casefold():
                raise UnsupportedError(
                    f"cannot create a view while Spark has {name} = {found}",
                    detail=f"Views compute as Spark does with {wanted}, so the same query would "
                    "have other answers there.",
                    hint=f'Call spark.conf.set("{name}", "{wanted}") before, or give connect() a '
                    "Spark session of its own: spark.newSession().",
                )

    def _spark(self) -> SparkSession | None:
        return self._active() if self._given is None else self._given


def all_set(spark: SparkSession) -> str | None:
    """All that is set in a session, as the JVM writes it; None if there is no such call."""
    try:
        conf = getattr(spark.conf, "_jconf", None)  # over Spark Connect there is none
        return None if conf is None else str(conf.getAllAsJava().toString())
    except Exception:  # what a dead session raises is told by who asks for a setting
        return None


def _setting(spark: SparkSession, name: str, *default: str) -> str:
    """`default`: of a setting that this version of Spark may not have; Spark's own goes before.

    Raises: SqlViewError if the session does not answer.
    """
    try:
        try:
            return str(spark.conf.get(name))
        except Exception:
            if not default:
                raise
            return str(spark.conf.get(name, *default))
    except Exception as error:  # of py4j, of the JVM, of gRPC: whatever a dead session raises
        said = str(error).strip().splitlines() or [""]
        raise SqlViewError(
            "the Spark session does not tell its settings",
            detail=f"{type(error).__name__}: {said[0]}",
            hint="If it was stopped, open a session with another one.",
        ) from error


def known_zone(name: str) -> Zone:
    """Raises: UnsupportedError if there is no such time zone."""
    zone = zones.find(name)
    if zone is None:
        raise UnsupportedError(
            f'the time zone "{name}" is not known',
            hint="Name a region such as Europe/Paris, or an offset such as +02:00.",
        )
    return zone
