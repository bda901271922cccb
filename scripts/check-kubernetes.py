#!/usr/bin/python3
"""usage: check-kubernetes.py        (package python3-yaml; BUILD: folder of the programs, build/release)

Checks deploy/kubernetes as far as this is possible without a cluster: kubectl, if there is a new one, renders every
kustomization; every file parses; every file that a kustomization names exists; every patch meets an object; every
volume that a container mounts is declared; selectors match labels; a client may call every server, also one that is
full; and the configs in it are configs of splits and splitc.
"""
import os
import pathlib
import shutil
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("check-kubernetes: python3-yaml is missing")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = {"Namespace", "Service", "StatefulSet", "Job", "PersistentVolumeClaim", "NetworkPolicy"}
faults = []


def wrong(where, what):
    faults.append(f"{where}: {what}")


def check_pod(where, pod, claims):
    volumes = {v["name"] for v in pod.get("volumes", [])} | claims
    used = set()
    for c in pod.get("initContainers", []) + pod["containers"]:
        security = c.get("securityContext", {})
        if not security.get("readOnlyRootFilesystem") or security.get("allowPrivilegeEscalation") is not False:
            wrong(where, f"container {c['name']} is not closed")
        for m in c.get("volumeMounts", []):
            used.add(m["name"])
            if m["name"] not in volumes:
                wrong(where, f"container {c['name']} mounts {m['name']}, which is not declared")
    for name in volumes - used:
        wrong(where, f"volume {name} is mounted nowhere")
    if not pod["securityContext"].get("runAsNonRoot"):
        wrong(where, "runs as root")


def check_object(where, o, labels):
    if o.get("kind") not in KINDS or "name" not in o.get("metadata", {}):
        wrong(where, f"kind {o.get('kind')} or its name")
        return
    spec = o.get("spec", {})
    if "template" in spec:
        labels.append(spec["template"]["metadata"]["labels"])
        claims = {c["metadata"]["name"] for c in spec.get("volumeClaimTemplates", [])}
        check_pod(where, spec["template"]["spec"], claims)
        selector = spec.get("selector", {}).get("matchLabels")
        if selector and selector != labels[-1]:
            wrong(where, f"selector {selector} is not the template's label")


def selected(o):
    spec = o.get("spec", {})
    if o["kind"] == "Service":
        return spec["selector"]
    return spec["podSelector"]["matchLabels"] if o["kind"] == "NetworkPolicy" else None


def named(folder):
    """(kind, name) of every object of a folder and of those that it builds on."""
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = folder / name
        if path.is_dir():
            yield from named(path)
        elif path.exists():
            yield from ((o["kind"], o["metadata"]["name"]) for o in yaml.safe_load_all(path.read_text()))


def renders():
    """Whether there is a kubectl whose kustomize has `patches`: Debian 12's, 1.20, has not. Newer ones name its version."""
    if not shutil.which("kubectl"):
        return False
    run = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True)
    return "Kustomize Version" in run.stdout


def check_folder(folder):
    if renders():
        run = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
        if run.returncode:
            wrong(folder, run.stderr.strip())
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    labels, objects = [], []
    for target in (patch["target"] for patch in kustomization.get("patches", [])):
        if (target["kind"], target["name"]) not in named(folder):
            wrong(folder, f"a patch is for {target['kind']} {target['name']}, which is not there")
    for name in kustomization["resources"]:
        path = folder / name
        if not path.exists():
            wrong(folder, f"no {name}")
        elif path.is_file():
            objects += [(path, o) for o in yaml.safe_load_all(path.read_text())]
    for path, o in objects:
        check_object(path, o, labels)
    for path, o in objects:
        if o["kind"] in ("Service", "NetworkPolicy") and selected(o) not in labels:
            wrong(path, f"{o['kind']} {o['metadata']['name']} selects no pod")
    for generator in kustomization.get("configMapGenerator", []):
        for name in generator["files"]:
            if not (folder / name).exists():
                wrong(folder, f"no {name}")
            elif name.endswith(".yaml"):
                check_config(folder / name)
    return objects


def check_ways(objects):
    """A client's policy lets it call every server, and a full one, which is not ready, keeps its name."""
    policy = next(o for _, o in objects if o["kind"] == "NetworkPolicy" and selected(o) == {"app": "split-client"})
    ways = [to["podSelector"]["matchLabels"] for rule in policy["spec"]["egress"] for to in rule["to"] if "podSelector" in to]
    for path, o in objects:
        if o["kind"] != "Service":
            continue
        if selected(o) not in ways:
            wrong(path, f"no policy lets a client call {o['metadata']['name']}")
        if not o["spec"].get("publishNotReadyAddresses"):
            wrong(path, f"{o['metadata']['name']} leads nowhere while its server is full")


def check_config(path):
    build = pathlib.Path(os.environ.get("BUILD", ROOT / "build/release"))
    program = ["splits", "serve"] if "server" in path.name else ["splitc", "train"]
    run = subprocess.run([build / program[0], program[1], path, "--print-config"], capture_output=True, text=True)
    if run.returncode:
        wrong(path, run.stderr.strip())


def main():
    folder = ROOT / "deploy/kubernetes"
    objects = [o for k in sorted(folder.glob("*/kustomization.yaml")) for o in check_folder(k.parent)]
    check_ways(objects)
    n = len(objects)
    for fault in faults:
        print(fault)
    print(f"check-kubernetes: {n} objects, {len(faults)} faults")
    return 1 if faults or n < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
