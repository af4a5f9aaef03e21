// What a model takes and gives, what it is made of, and its configuration.

import { CopyButton, Empty } from "../parts";
import { modelHref } from "../router";
import { useStore } from "../store";
import type { ModelDetail, TensorMetadata } from "../types";

function Tensors({ title, tensors }: { title: string; tensors: TensorMetadata[] }) {
  const id = `tensors-${title}`;
  return (
    <section class="card" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {tensors.length === 0 ? (
        <Empty>None.</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-labelledby={id}>
          <table>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Datatype</th>
                <th scope="col">Shape</th>
                <th scope="col">Remarks</th>
              </tr>
            </thead>
            <tbody>
              {tensors.map((each) => (
                <tr key={each.name}>
                  <th scope="row">{each.name}</th>
                  <td>{each.datatype}</td>
                  <td>
                    <code>[{each.shape.join(", ")}]</code>
                  </td>
                  <td class="muted">
                    {[each.optional === true ? "optional" : "", (each.labels ?? 0) > 0 ? `${each.labels} labels` : ""]
                      .filter(Boolean)
                      .join(", ")}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Relations({ model }: { model: ModelDetail }) {
  const { models = [] } = useStore();
  const href = (name: string, version: string): string => {
    const found = models.find(({ row }) => row.name === name && (version === "" || row.version === version));
    return modelHref(name, found?.row.version ?? version);
  };
  if (model.uses.length === 0 && model.used_by.length === 0) {
    return null;
  }
  return (
    <section class="card" aria-labelledby="relations">
      <h2 id="relations">Made of, and part of</h2>
      <dl class="pairs">
        {model.uses.length > 0 && (
          <>
            <dt>Uses</dt>
            <dd>
              {model.uses.map((each) => {
                const version = Number(each.version) > 0 ? String(each.version) : "";
                return (
                  <a key={each.name} class="chip" href={href(each.name, version)}>
                    {each.name} {version}
                  </a>
                );
              })}
            </dd>
          </>
        )}
        {model.used_by.length > 0 && (
          <>
            <dt>Used by</dt>
            <dd>
              {model.used_by.map((each) => (
                <a key={each} class="chip" href={href(each, "")}>
                  {each}
                </a>
              ))}
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}

export function ConfigurationTab({ model }: { model: ModelDetail }) {
  const text = model.config === null || model.config === undefined ? "" : JSON.stringify(model.config, null, 2);
  return (
    <>
      <div class="columns">
        <Tensors title="Inputs" tensors={model.inputs} />
        <Tensors title="Outputs" tensors={model.outputs} />
      </div>
      <Relations model={model} />
      <section class="card" aria-labelledby="config">
        <h2 id="config">Configuration</h2>
        {text === "" ? (
          <Empty>The server has none for it in this form.</Empty>
        ) : (
          <>
            <p>
              <CopyButton text={text}>Copy</CopyButton>
            </p>
            <pre class="code" tabIndex={0} role="group" aria-label="Configuration as JSON">
              {text}
            </pre>
          </>
        )}
      </section>
    </>
  );
}
