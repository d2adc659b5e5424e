"""What Spark makes of an expression on each row, by its own evaluator.

A query of Spark's ends at the first row that fails. So expressions are analyzed by Spark, and then
evaluated one row at a time in its JVM, by a small Java class that catches what they throw.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql.pandas.types import from_arrow_schema

from sqlview.spark.running import start_spark

#: NULL is None; a value is "=" and its text, an error "!" and its class; "~" is a text that is no
#: UTF-8, which Spark lets through.
Answer = str | None

_EVALUATE = """
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.unsafe.types.UTF8String;

public class Evaluate {
  public static String run(Object projection, Object input) throws Exception {
    InterpretedMutableProjection evaluate = (InterpretedMutableProjection) projection;
    InternalRow[] rows = (InternalRow[]) input;
    StringBuilder out = new StringBuilder();
    for (int i = 0; i < rows.length; i++) {
      String answer = "";
      try {
        InternalRow result = (InternalRow) evaluate.apply(rows[i]);
        if (!result.isNullAt(0)) answer = shown(result.getUTF8String(0));
      } catch (Throwable thrown) {
        answer = "!" + name(thrown);
      }
      byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
      out.append(Base64.getEncoder().encodeToString(bytes)).append(',');
    }
    return out.toString();
  }

  static String shown(UTF8String text) throws Exception {
    if (!text.isValid()) return "~";
    if (text.numChars() <= LONGEST) return "=" + text.toString();
    byte[] digest = MessageDigest.getInstance("MD5").digest(text.getBytes());
    StringBuilder hex = new StringBuilder();
    for (int i = 0; i < digest.length; i++)
      hex.append(String.format("%02x", new Object[] {digest[i]}));
    return "=#" + text.numChars() + ":" + hex;
  }

  static String name(Throwable thrown) {
    if (thrown instanceof SparkThrowable && ((SparkThrowable) thrown).getCondition() != null)
      return ((SparkThrowable) thrown).getCondition();
    return thrown.getClass().getSimpleName();
  }
}
"""
LONGEST = 100


class Spark:
    """A Spark session with the rows of one table, as a context manager."""

    def __init__(self) -> None:
        self.session = start_spark("local[1]")
        self.session.conf.set("spark.sql.session.timeZone", "UTC")
        self.session.conf.set("spark.sql.ansi.enabled", "true")
        # Else the operand of BETWEEN and NULLIF is left to a rule of the optimizer.
        self.session.conf.set("spark.sql.alwaysInlineCommonExpr", "true")
        self._jvm: Any = self.session._jvm
        self.version: str = self.session.version
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        compiler = self._jvm.org.codehaus.janino.SimpleCompiler()
        thread = self._jvm.java.lang.Thread.currentThread()
        compiler.setParentClassLoader(thread.getContextClassLoader())
        compiler.cook(_EVALUATE.replace("LONGEST", str(LONGEST)))
        loaded = compiler.getClassLoader().loadClass("Evaluate")
        self._run = next(m for m in loaded.getMethods() if m.getName() == "run")
        self._rows: Any = None

    def __enter__(self) -> Spark:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.session.stop()

    def load(self, table: pa.Table) -> None:
        """Take the rows that expressions are evaluated on."""
        kinds = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        frame = self.session.createDataFrame(table, kinds)  # type: ignore[arg-type]
        frame.createOrReplaceTempView("x")
        plan = self.session.table("x")._jdf.queryExecution().executedPlan()  # type: ignore[operator]
        self._rows = plan.executeCollect()

    def answers(self, expressions: Sequence[str]) -> list[tuple[str, list[Answer]] | str]:
        """For each expression its type and its answer on each row, or the class of the error for
        which Spark refuses it."""
        try:
            return self._evaluated(expressions)
        except PySparkException as error:
            if len(expressions) == 1:
                return [error.getCondition() or type(error).__name__]
        middle = len(expressions) // 2
        return self.answers(expressions[:middle]) + self.answers(expressions[middle:])

    def _evaluated(self, expressions: Sequence[str]) -> list[tuple[str, list[Answer]] | str]:
        columns = ", ".join(f"{e} AS c{i}" for i, e in enumerate(expressions))
        kinds = [
            field.dataType.simpleString().upper()
            for field in self.session.sql(f"SELECT {columns} FROM x").schema
        ]
        shown = ", ".join(
            f"hex({e}) AS c{i}" if kind == "BINARY" else f"CAST({e} AS STRING) AS c{i}"
            for i, (e, kind) in enumerate(zip(expressions, kinds, strict=True))
        )
        frame = self.session.sql(f"SELECT {shown} FROM x")
        plan = frame._jdf.queryExecution().analyzed()  # type: ignore[operator]
        rules = self._jvm.org.apache.spark.sql.catalyst.optimizer
        plan = getattr(getattr(rules, "ReplaceExpressions$"), "MODULE$").apply(plan)
        listed, inputs = plan.projectList(), plan.child().output()
        return [
            (kind, self._rowwise(listed.slice(i, i + 1), inputs)) for i, kind in enumerate(kinds)
        ]

    def _rowwise(self, one: Any, inputs: Any) -> list[Answer]:
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        projection = expressions.InterpretedMutableProjection(one, inputs)
        arguments = self._jvm.java.util.ArrayList()
        arguments.add(projection)
        arguments.add(self._rows)
        encoded = self._run.invoke(None, arguments.toArray())
        texts = [base64.b64decode(part).decode() for part in encoded.split(",")[:-1]]
        return [text or None for text in texts]
