// The script of /docs. It shows the forms below "Try it" and sends their requests, only to the instance that served the page. Everything else on the page works
// without it (src/coordinator/openapi/page.ts).
import { toHex } from "../../receipt/bytes.ts";
import { element, setText } from "../shell/dom.ts";

/** The maximum number of characters of a response that the page shows. An event stream or a large result can be longer. */
const MAX_SHOWN = 200_000;

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

function find<T extends Element>(parent: ParentNode, selector: string, type: new () => T): T {
  const found = parent.querySelector(selector);
  if (!(found instanceof type)) throw new Error(`the page has no ${selector}`);
  return found;
}

function fieldsOf(parent: ParentNode): Field[] {
  const fields = parent.querySelectorAll("input, select[data-in], textarea");
  return [...fields].filter(
    (field): field is Field => field instanceof HTMLInputElement || field instanceof HTMLSelectElement || field instanceof HTMLTextAreaElement,
  );
}

/** The request that a form describes. Empty fields are not sent. */
function requestOf(form: HTMLFormElement): Request {
  let path = form.dataset["path"] ?? "/";
  const query = new URLSearchParams();
  const headers = new Headers();
  let body: string | null = null;
  for (const { name, value, dataset } of fieldsOf(form)) {
    if (dataset["in"] === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (dataset["in"] === "body") body = value;
    else if (value === "") continue;
    else if (dataset["in"] === "query") query.set(name, value);
    else headers.set(name, value);
  }
  if (body !== null) headers.set("Content-Type", "application/json");
  const url = new URL(path + (query.size > 0 ? `?${query.toString()}` : ""), location.origin);
  return new Request(url, { method: form.dataset["method"] ?? "GET", headers, body, credentials: "omit", cache: "no-store", redirect: "error" });
}

/** Reads a response in pieces, because an event stream stays open for a long time. */
async function readText(response: Response, onText: (text: string) => void): Promise<string> {
  let text = "";
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const piece = await reader?.read();
    if (piece?.value === undefined) return text;
    text += piece.value;
    if (text.length > MAX_SHOWN) {
      await reader?.cancel();
      return `${text.slice(0, MAX_SHOWN)}\n…`;
    }
    onText(text);
  }
}

/** Formats JSON with line breaks; returns any other text unchanged. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A form, its button, and the response below it. */
class TryIt {
  readonly #form: HTMLFormElement;
  readonly #button: HTMLButtonElement;
  readonly #status: HTMLElement;
  readonly #text: HTMLElement;
  readonly #headers: HTMLElement;
  /** Aborts the current request. */
  #running: AbortController | null = null;

  constructor(form: HTMLFormElement) {
    this.#form = form;
    this.#button = find(form, "button", HTMLButtonElement);
    this.#status = find(form, "[role=status]", HTMLElement);
    this.#text = find(form, ".response code", HTMLElement);
    this.#headers = find(form, ".response details code", HTMLElement);
  }

  /** Shows the form and listens to its events. */
  start(): void {
    const form = this.#form;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#running === null) void this.#send();
      else this.#running.abort();
    });
    form.querySelector("select.examples")?.addEventListener("change", ({ target }) => {
      if (target instanceof HTMLSelectElement) find(form, "textarea", HTMLTextAreaElement).value = target.value;
    });
    form.hidden = false;
  }

  async #send(): Promise<void> {
    const running = new AbortController();
    this.#running = running;
    setText(this.#button, "Stop");
    setText(this.#status, "Sent.");
    const startedAt = performance.now();
    const took = (): string => `${Math.round(performance.now() - startedAt)} ms`;
    try {
      const response = await fetch(requestOf(this.#form), { signal: running.signal });
      const heading = `${response.status} ${response.statusText}`.trim();
      setText(this.#status, `${heading}, ${took()}`);
      setText(this.#headers, [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n"));
      setText(this.#text, "");
      find(this.#form, ".response", HTMLElement).hidden = false;
      const text = await readText(response, (part) => setText(this.#text, part));
      setText(this.#text, pretty(text));
      setText(this.#status, `${heading}, ${took()}`);
      keepJob(text, response.headers.get("x-cancel-token"));
    } catch (error) {
      setText(this.#status, running.signal.aborted ? `Stopped after ${took()}.` : `No response: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      this.#running = null;
      setText(this.#button, "Send");
    }
  }
}

/** Puts the id of a job that was just committed into the forms that need a job id, and its cancel token into the form that cancels it. */
function keepJob(text: string, cancelToken: string | null): void {
  const [, id] = /^\{"job_id":"([0-9a-f-]{36})"/.exec(text) ?? [];
  if (id === undefined) return;
  fill("input[data-in=path][name=id]", id);
  if (cancelToken !== null) fill("input[name=X-Cancel-Token]", cancelToken);
}

/** Fills fields of the forms about one job. */
function fill(selector: string, value: string): void {
  for (const field of document.querySelectorAll(`form[data-path^="/v1/jobs/"] ${selector}`)) if (field instanceof HTMLInputElement) field.value = value;
}

/** Replaces the user id of the examples by a random one: every reader knows the id of the examples, and could act as that user. */
function replaceUserId(): void {
  const known = find(document, "input[name=user_id]", HTMLInputElement).value;
  const own = `user-${toHex(crypto.getRandomValues(new Uint8Array(10)))}`;
  for (const field of fieldsOf(document)) field.value = field.value.replaceAll(known, own);
  for (const option of document.querySelectorAll("select.examples option"))
    if (option instanceof HTMLOptionElement) option.value = option.value.replaceAll(known, own);
}

/** Lets the Tab key stop only at tables and code blocks that really scroll. Without this script it stops at each of them. */
const scrolling = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const scrolls = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
    if (target instanceof HTMLElement) target.tabIndex = scrolls ? 0 : -1;
  }
});
for (const block of document.querySelectorAll("pre, .scroll")) scrolling.observe(block);

/** Beside the text the list of contents is open. Above it, on a narrow screen, it is folded: the text would begin two screens further down. */
const isWide = matchMedia("(min-width: 60rem)");
const contents = element("contents", HTMLDetailsElement);
const foldContents = (): void => void (contents.open = isWide.matches);
isWide.addEventListener("change", foldContents);
foldContents();

replaceUserId();
setText(element("base-url", HTMLElement), `BASE_URL=${location.origin}`);
for (const form of document.querySelectorAll("form.try")) if (form instanceof HTMLFormElement) new TryIt(form).start();
