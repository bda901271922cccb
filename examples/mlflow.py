"""Sends a run's log.jsonl to an MLflow tracking server: mlflow.py RUN URL [EXPERIMENT]

RUN is a log.dir, such as runs/demo, and URL the server's, such as http://127.0.0.1:5000. Steps and epochs become metrics by the step they
belong to, and the summary the run's end. It needs no package, and speaks MLflow's REST API 2.0."""
import json
import math
import os
import sys
import time
import urllib.error
import urllib.request

MOST = 1000  # metrics of a request, by MLflow's limit


def call(url, name, body):
    request = urllib.request.Request(f"{url}/api/2.0/mlflow/{name}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def experiment_id(url, name):
    try:
        return call(url, "experiments/create", {"name": name})["experiment_id"]
    except urllib.error.HTTPError as e:
        if json.load(e).get("error_code") != "RESOURCE_ALREADY_EXISTS":
            raise
    with urllib.request.urlopen(f"{url}/api/2.0/mlflow/experiments/get-by-name?experiment_name={urllib.request.quote(name)}", timeout=60) as answer:
        return json.load(answer)["experiment"]["experiment_id"]


def numbers(line):
    """The finite numbers of a line, those of test_metrics too."""
    found = {**line, **(line.get("test_metrics") or {})}
    return {k: float(v) for k, v in found.items() if isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)}


def main(run, url, experiment="split"):
    url, now, step, metrics, outcome = url.rstrip("/"), int(time.time() * 1000), 0, [], None
    with open(os.path.join(run, "log.jsonl")) as log:
        for line in map(json.loads, log):
            step = line.get("step", step)
            outcome = line.get("outcome", outcome)
            if line["type"] in ("step", "epoch", "summary"):
                prefix = "" if line["type"] == "epoch" else line["type"] + "_"
                metrics += [{"key": prefix + k, "value": v, "timestamp": now, "step": step} for k, v in numbers(line).items() if k != "step"]
    made = call(url, "runs/create", {"experiment_id": experiment_id(url, experiment), "start_time": now, "run_name": os.path.basename(os.path.abspath(run))})
    name = made["run"]["info"]["run_id"]
    for at in range(0, len(metrics), MOST):
        call(url, "runs/log-batch", {"run_id": name, "metrics": metrics[at:at + MOST]})
    status = {"finished": "FINISHED", None: "RUNNING"}.get(outcome, "KILLED")
    call(url, "runs/update", {"run_id": name, "status": status, "end_time": int(time.time() * 1000)})
    print(f"{len(metrics)} values of {step} steps: run {name}, {status}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
