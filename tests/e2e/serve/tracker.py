"""A stand-in for MLflow's tracking server, as far as examples/mlflow.py calls it: tracker.py PORT FILE. It refuses more metrics than MLflow
takes in a request, a second experiment of a name, and what is no finite number, and writes each request's body to FILE, a line each."""
import http.server
import json
import math
import sys

known = {}


class Tracker(http.server.BaseHTTPRequestHandler):
    def answer(self, body, status=200):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        name = self.path.rpartition("experiment_name=")[2]
        self.answer({"experiment": {"experiment_id": known[name]}})

    def do_POST(self):
        name, body = self.path.rpartition("mlflow/")[2], json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(sys.argv[2], "a") as f:
            print(json.dumps([name, body]), file=f)
        if name == "experiments/create" and body["name"] in known:
            return self.answer({"error_code": "RESOURCE_ALREADY_EXISTS"}, 400)
        if name == "experiments/create":
            known[body["name"]] = str(len(known))
            return self.answer({"experiment_id": known[body["name"]]})
        if name == "runs/log-batch" and not (len(body["metrics"]) <= 1000 and all(math.isfinite(m["value"]) for m in body["metrics"])):
            return self.answer({"error_code": "INVALID_PARAMETER_VALUE"}, 400)
        self.answer({"run": {"info": {"run_id": "r1"}}} if name == "runs/create" else {})

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Tracker).serve_forever()
