"""Write the bytes of a record's newest version where they are missing: ``python tests/golden/make.py``."""

from __future__ import annotations

from golden_events import FOLDER, GOLDEN

from pipeline.kafka.codec import Codec
from pipeline.kafka.schemas import SCHEMAS

if __name__ == "__main__":
    for name, event in GOLDEN.items():
        version = len(list((SCHEMAS / "history").glob(f"{name}.v*.avsc")))
        path = FOLDER / f"{name}.v{version}.bin"
        if not path.exists():
            path.write_bytes(Codec().encode(event))
            print(f"wrote {path.name}")
