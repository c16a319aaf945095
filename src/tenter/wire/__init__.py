"""The only place where an event becomes JSON and back (D§9): payload, verdict, schema, canonical form."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.wire.canonical import (
        PREFIX as PREFIX,
        CanonicalError as CanonicalError,
        Document as Document,
        Fetch as Fetch,
        OversizeError as OversizeError,
        Parts as Parts,
        Reference as Reference,
        digest as digest,
        digest_of_bytes as digest_of_bytes,
        plain_form as plain_form,
        restore as restore,
    )
    from tenter.wire.metadata import (
        decode_metadata as decode_metadata,
    )
    from tenter.wire.payload import (
        SCHEMA_VERSION as SCHEMA_VERSION,
        Ended as Ended,
        Execution as Execution,
        encode_payload as encode_payload,
        environment as environment,
        execution_key as execution_key,
    )
    from tenter.wire.schema import (
        event_schema as event_schema,
        payload_schema as payload_schema,
        schema_text as schema_text,
        verdict_schema as verdict_schema,
    )
    from tenter.wire.strict_json import (
        NotJson as NotJson,
        one_object as one_object,
        one_value as one_value,
    )
    from tenter.wire.verdict import (
        Verdict as Verdict,
        decode_verdict as decode_verdict,
        has_decision as has_decision,
    )

__all__ = [
    "CanonicalError",
    "Document",
    "Ended",
    "Execution",
    "Fetch",
    "NotJson",
    "OversizeError",
    "PREFIX",
    "Parts",
    "Reference",
    "SCHEMA_VERSION",
    "Verdict",
    "decode_metadata",
    "decode_verdict",
    "digest",
    "digest_of_bytes",
    "encode_payload",
    "environment",
    "event_schema",
    "execution_key",
    "has_decision",
    "one_object",
    "one_value",
    "payload_schema",
    "plain_form",
    "restore",
    "schema_text",
    "verdict_schema",
]

__getattr__ = opener(
    __name__,
    {
        "canonical": (
            "CanonicalError",
            "Document",
            "Fetch",
            "OversizeError",
            "PREFIX",
            "Parts",
            "Reference",
            "digest",
            "digest_of_bytes",
            "plain_form",
            "restore",
        ),
        "metadata": ("decode_metadata",),
        "payload": (
            "Ended",
            "Execution",
            "SCHEMA_VERSION",
            "encode_payload",
            "environment",
            "execution_key",
        ),
        "schema": (
            "event_schema",
            "payload_schema",
            "schema_text",
            "verdict_schema",
        ),
        "strict_json": (
            "NotJson",
            "one_object",
            "one_value",
        ),
        "verdict": (
            "Verdict",
            "decode_verdict",
            "has_decision",
        ),
    },
)
