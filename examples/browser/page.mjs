// A page that shows an answer while a worker writes it, and cancels the job on request. index.html says how to bundle it.
import { ComputeRouter } from "compute-router";

const router = new ComputeRouter({ baseUrl: new URLSearchParams(location.search).get("router") ?? "http://127.0.0.1:4010" });
const form = document.querySelector("form");
const output = document.querySelector("output");
const [ask, cancel] = form.querySelectorAll("button");

for (const { id } of (await router.models()).data) form.elements.model.add(new Option(id));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const abort = new AbortController();
  const onCancel = () => abort.abort(new Error("cancelled"));
  cancel.addEventListener("click", onCancel, { once: true });
  [ask.disabled, cancel.disabled] = [true, false];
  const { model, question } = form.elements;
  const job = { job_type: "LLM_INFER", messages: [{ role: "user", content: question.value }], model: model.value };
  // textContent, never innerHTML: a stranger wrote this text.
  output.textContent = "";
  try {
    for await (const event of router.stream(job, { signal: abort.signal })) {
      if (event.type === "delta") output.textContent += event.delta;
      if (event.type === "reset") output.textContent = "";
      if (event.type === "done") output.textContent = `${event.result.output} (${event.result.verified ? "verified" : "not verified"})`;
    }
  } catch (error) {
    output.textContent = error.message;
  }
  cancel.removeEventListener("click", onCancel);
  [ask.disabled, cancel.disabled] = [false, true];
});
