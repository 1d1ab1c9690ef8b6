"""What pages keep as JSON beside the results, with its checksum: damaged, it is made again."""

import hashlib
import json
from pathlib import Path

from rbplib.families import write_text


def write_kept(path, value):
    """Keep what JSON can hold, with its checksum, for `read_kept`."""
    text = json.dumps(value)
    write_text(path, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n")


def read_kept(path):
    """What `write_kept` kept; None where there is nothing, or it was damaged."""
    try:
        digest, text, _ = Path(path).read_bytes().split(b"\n")
    except (OSError, ValueError):
        return None
    return json.loads(text) if digest == hashlib.sha256(text).hexdigest().encode() else None
