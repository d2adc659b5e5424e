"""Why built-in functions of Spark are not in views: all that `builtin.maintained` lacks."""

from __future__ import annotations

#: Why functions are refused, after "the function NAME …".
_REASONS: dict[str, str] = {
    "makes or reads a sketch, whose bytes are an estimate of a library of its own": (
        "approx_top_k "
        "approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate count_min_sketch "
        "histogram_numeric hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg "
        "kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint "
        "kll_sketch_agg_double kll_sketch_agg_float kll_sketch_get_n_bigint "
        "kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint "
        "kll_sketch_get_quantile_double kll_sketch_get_quantile_float "
        "kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float "
        "kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float "
        "kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float "
        "theta_difference theta_intersection theta_intersection_agg theta_sketch_agg "
        "theta_sketch_estimate theta_union theta_union_agg tuple_difference_double "
        "tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer "
        "tuple_intersection_agg_double tuple_intersection_agg_integer tuple_intersection_double "
        "tuple_intersection_integer tuple_intersection_theta_double "
        "tuple_intersection_theta_integer tuple_sketch_agg_double tuple_sketch_agg_integer "
        "tuple_sketch_estimate_double tuple_sketch_estimate_integer "
        "tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double "
        "tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer "
        "tuple_union_double tuple_union_integer tuple_union_theta_double "
        "tuple_union_theta_integer"
    ),
    "has another value each time, or for each session, that asks": (
        "current_catalog current_database current_path current_schema current_time "
        "current_timezone current_user localtime session_user user version rand randn random "
        "randstr uniform uuid shuffle monotonically_increasing_id"
    ),
    "tells how Spark reads and runs a query, not what rows hold": (
        "input_file_block_length input_file_block_start input_file_name spark_partition_id"
    ),
    "runs code of the machine that it is on": "java_method reflect try_reflect",
    "depends on the order of the rows, which a table has none of": "first last",
    "is of the type TIME, which no column has": (
        "make_time time time_diff time_from_micros time_from_millis "
        "time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc to_time "
        "try_to_time"
    ),
    "is of months and days at once, which no column has": "make_interval try_make_interval",
    "is of the type VARIANT, which no column has": (
        "is_valid_variant is_variant_null parse_json schema_of_variant schema_of_variant_agg "
        "to_variant_object try_parse_json try_variant_array_append try_variant_get "
        "try_variant_insert try_variant_set variant_array_append variant_delete variant_get "
        "variant_insert variant_set variant_strip_nulls variant_explode variant_explode_outer"
    ),
    "is of geometries, which no column has": (
        "st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid"
    ),
    "reads or writes another format; read it where rows are loaded": (
        "from_avro schema_of_avro to_avro from_protobuf to_protobuf from_xml schema_of_xml to_xml"
    ),
    "needs a secret, or hides one": "aes_decrypt aes_encrypt try_aes_decrypt",
    "is of collations, and all texts are compared by their bytes": "collate",
    "belongs to a clause that views do not have": "measure",
    "adds up FLOATs in the order of the rows, which its last digits show": (
        "vector_avg vector_sum"
    ),
    "parts words by the rules of Java's languages": "sentences",
    "is of nanoseconds, which no column has": "timestamp_nanos unix_nanos",
    "makes rows of its own": "range collations python_worker_logs sql_keywords",
}
#: Reasons of functions that have no value of their arguments alone: all others are deterministic.
VARYING = frozenset(
    reason
    for reason in _REASONS
    if reason.startswith(("has another value", "tells how", "runs code", "depends on the order"))
)
#: Reasons of functions over values that no column holds, or over an estimate's bytes.
OF_OTHER_TYPES = frozenset(
    reason for reason in _REASONS if "which no column has" in reason or "a sketch" in reason
)
#: Of a refused function, why it is.
BY_NAME: dict[str, str] = {
    name: reason for reason, names in _REASONS.items() for name in names.split()
}
