// The instances of a model: the processes of a Python model, the infer requests of an OpenVINO one.

import { bytes, count, duration } from "../format";
import { Empty } from "../parts";
import type { ModelDetail } from "../types";

export function WorkersTab({ model, nowMs }: { model: ModelDetail; nowMs: number }) {
  if (model.workers.length === 0) {
    return (
      <Empty>
        {model.kind === "model" ? "There are no instances now." : `A ${model.kind} has no instances of its own; its parts have.`}
      </Empty>
    );
  }
  return (
    <div class="card scroll" tabIndex={0} role="group" aria-label="Table of instances">
      <table>
        <thead>
          <tr>
            <th scope="col">Instance</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Process
            </th>
            <th scope="col" class="number">
              Memory
            </th>
            <th scope="col" class="number">
              Executions
            </th>
            <th scope="col" class="number">
              Restarts
            </th>
            <th scope="col" class="number">
              Runs for
            </th>
          </tr>
        </thead>
        <tbody>
          {model.workers.map((worker) => (
            <tr key={worker.name}>
              <th scope="row">{worker.name}</th>
              <td>
                <span class={`badge ${worker.ready ? "good" : "bad"}`}>
                  <span aria-hidden="true">{worker.ready ? "●" : "✕"}</span> {worker.ready ? "ready" : "not ready"}
                </span>
                {worker.reason !== "" && <span class="reason">{worker.reason}</span>}
              </td>
              <td class="number">{worker.pid > 0 ? worker.pid : "in the server"}</td>
              <td class="number">{bytes(worker.memory_bytes)}</td>
              <td class="number">{count(worker.executions)}</td>
              <td class={worker.restarts > 0 ? "number warn" : "number"}>{count(worker.restarts)}</td>
              <td class="number">{worker.started_ms > 0 ? duration(nowMs - worker.started_ms) : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
