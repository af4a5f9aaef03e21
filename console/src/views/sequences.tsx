// The sequences of a model that are alive.

import { getJson, query } from "../api";
import { count, duration } from "../format";
import { Empty } from "../parts";
import { usePoll } from "../poll";
import { REFRESH_MS } from "../store";
import type { Sequences } from "../types";

export function SequencesTab({ name, version }: { name: string; version: string }) {
  const path = `/console/api/sequences${query({ model: name, version })}`;
  const { value, error } = usePoll(path, (signal) => getJson<Sequences>(path, signal), REFRESH_MS);
  if (value === undefined) {
    return <Empty>{error === undefined ? "Loading…" : error.message}</Empty>;
  }
  if (value.total === 0) {
    return <Empty>No sequence is alive. One begins with a request that has a sequence id and sequence_start.</Empty>;
  }
  const time = (ms: number | undefined): string => (ms === undefined ? "–" : duration(ms));
  return (
    <>
      <p class="muted" role="status">
        {count(value.total)} alive{value.total > value.sequences.length && `, the first ${value.sequences.length} shown`}
      </p>
      {value.sequences.length > 0 && (
        <div class="card scroll" tabIndex={0} role="group" aria-label="Table of sequences">
          <table>
            <thead>
              <tr>
                <th scope="col">Sequence</th>
                <th scope="col" class="number">
                  Requests
                </th>
                <th scope="col" class="number">
                  Last request, ago
                </th>
                <th scope="col" class="number">
                  Age
                </th>
              </tr>
            </thead>
            <tbody>
              {value.sequences.map((each) => (
                <tr key={each.id}>
                  <th scope="row">{each.id}</th>
                  <td class="number">{each.requests === undefined ? "–" : count(each.requests)}</td>
                  <td class="number">{time(each.idle_ms)}</td>
                  <td class="number">{time(each.age_ms)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
