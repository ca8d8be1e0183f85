"""Take in each agreed answer and draw the spectrum anew, so that the picture grows while the results come in.

Cobblestone calls ``assimilate`` once for each workunit, and again after a crash: everything here may be repeated.
"""

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # merge.py lies beside this file

from merge import answer, merge, write


def assimilate(workunit):
    """Keep the answer under the workunit's name and merge all answers of its batch so far."""
    batch = workunit.folder / f"batch-{workunit.batch_id}"
    bands = batch / "bands"
    bands.mkdir(parents=True, exist_ok=True)
    if not workunit.succeeded:
        write(batch / f"{workunit.name}.failed.txt", f"{workunit.error}\n")
        return
    (output,) = workunit.outputs.values()
    temporary = bands / f".{workunit.name}.tmp"
    shutil.copyfile(output, temporary)
    temporary.replace(bands / f"{workunit.name}.json")
    spectrum = merge(sorted(bands.glob("*.json")), batch)
    power, period = spectrum.strongest()
    facts = {
        "period_years": period,
        "power": power,
        "p_value": spectrum.p_value(power),
        "missing_bands": spectrum.missing,
        "answer": answer(spectrum),
    }
    write(batch / "answer.json", json.dumps(facts, indent=1) + "\n")
