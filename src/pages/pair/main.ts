// The entry of the pair page: it connects the panels, the SDK and the storage of the tab.
import type { Result } from "../../protocol/result.ts";
import { ComputeRouter, ComputeRouterError, InvalidOptionError, RateLimitedError, RouterConnectionError, UnavailableError } from "../../sdk/index.ts";
import { element, setText } from "../shell/dom.ts";
import { CodePanel } from "./code-panel.ts";
import { type OpenCode, readOpenCode, readUser, sameUser, type Store, type User, USER_KEY, writeOpenCode, writeUser } from "./stored.ts";
import { type OnUse, type UserFault, UserPanel } from "./user-panel.ts";
import { WorkersPanel } from "./workers-panel.ts";

/** When a person returns to the page, it asks the coordinator at once, unless the last request is younger than this. */
const MIN_REQUEST_AGE_MS = 5_000;

/** The page for the user's side of a pairing: the user id, a pairing code, and the paired workers. */
class PairPage {
  readonly #origin: string;
  readonly #store: Store;
  readonly #session: Store;
  readonly #userPanel = new UserPanel(
    (user) => this.#use(user),
    () => this.follow(),
  );
  readonly #codePanel = new CodePanel(() => void this.#make());
  readonly #workersPanel = new WorkersPanel(() => void this.#list());
  #user: User | null = null;
  /** What this tab last read from the storage or wrote to it. */
  #stored: User | null = null;
  #router: ComputeRouter | null = null;
  #open: OpenCode | null = null;
  #waiting: AbortController | null = null;
  #askedAt = 0;
  #listedAt = 0;
  /** The list of workers could not be loaded. */
  #lacksList = false;

  /** `store` keeps the user between visits. `session` keeps the open code as long as the tab is open. */
  constructor(options: { origin: string; store: Store; session: Store }) {
    this.#origin = options.origin;
    this.#store = options.store;
    this.#session = options.session;
    setInterval(() => this.#codePanel.tick(Date.now()), 1_000);
  }

  /** Restores the state of the last visit. */
  start(): void {
    // Without JavaScript nothing of it works, so the page hides it at first.
    element("pair", HTMLElement).hidden = false;
    const user = (this.#stored = readUser(this.#store));
    this.#userPanel.start(user);
    this.#codePanel.idle(false);
    this.#workersPanel.idle();
    if (user !== null && !this.#use(user).ok) this.#userPanel.start(null);
  }

  /**
   * If another tab has stored a user since, this tab uses it too and returns true: a browser has one user, and a tab that does not know it would replace it,
   * and lose its pairings. It also looks before it writes, because a tab that sleeps gets no event.
   */
  follow(): boolean {
    const stored = readUser(this.#store);
    if (stored === null || sameUser(stored, this.#stored)) return false;
    this.#stored = stored;
    if (sameUser(stored, this.#user) || !this.#start(stored).ok) return false;
    this.#userPanel.followed(stored);
    return true;
  }

  /** The page is visible again, or the network is back. */
  returned(): void {
    this.follow();
    if (this.#open !== null && Date.now() - this.#askedAt > MIN_REQUEST_AGE_MS) void this.#wait(this.#open);
    // Another tab, or an earlier code, may have brought a worker.
    if (this.#lacksList || Date.now() - this.#listedAt > MIN_REQUEST_AGE_MS) void this.#list();
  }

  /** Uses a user from now on, and stores it. */
  #use(user: User): ReturnType<OnUse> {
    const started = this.#start(user);
    if (!started.ok) return started;
    const isStored = writeUser(this.#store, user);
    if (isStored) this.#stored = user;
    return { ok: true, value: { isStored } };
  }

  #start(user: User): Result<null, UserFault> {
    const { userId, userToken } = user;
    try {
      this.#router = new ComputeRouter({ baseUrl: this.#origin, userId, ...(userToken !== null && { userToken }) });
    } catch (error) {
      if (!(error instanceof InvalidOptionError)) return { ok: false, reason: { text: errorText(error), isToken: false } };
      return { ok: false, reason: { text: `This user id or token cannot be used: ${error.message}`, isToken: error.option === "userToken" } };
    }
    this.#user = user;
    this.#waiting?.abort();
    this.#open = null;
    this.#codePanel.idle(true);
    const open = readOpenCode(this.#session, user, Date.now());
    if (open !== null) void this.#wait(open);
    void this.#list();
    return { ok: true, value: null };
  }

  /** Makes a code for the user that the form shows. */
  async #make(): Promise<void> {
    if (!this.#userPanel.settle()) return;
    const router = this.#router;
    if (router === null) return;
    this.#codePanel.asking();
    try {
      const offer = await router.trust.create();
      void this.#warnIfUnbound(router);
      const earlier = this.#open;
      if (router === this.#router) await this.#wait(earlier === null ? offer : { ...offer, earlierUntil: earlier.expiresAt.getTime() });
    } catch (error) {
      if (router === this.#router) this.#failed(error);
    }
  }

  /** Warns if the token of a new code has no effect: only the first code of a user binds one [TR2]. If the check fails, nothing is said. */
  async #warnIfUnbound(router: ComputeRouter): Promise<void> {
    if (this.#user?.userToken == null) return;
    const error: unknown = await router.jobs({ limit: 1 }).catch((thrown: unknown) => thrown);
    if (router === this.#router && reasonOf(error) === "user_token_required") this.#userPanel.warn();
  }

  async #wait(open: OpenCode): Promise<void> {
    const router = this.#router;
    const user = this.#user;
    if (router === null || user === null) return;
    this.#waiting?.abort();
    const waiting = (this.#waiting = new AbortController());
    const isNew = open.code !== this.#open?.code;
    this.#open = open;
    this.#askedAt = Date.now();
    writeOpenCode(this.#session, user, open);
    if (isNew) {
      this.#userPanel.fold();
      this.#codePanel.offered(open);
    }
    try {
      const worker = await router.trust.waitForWorker(open, { signal: waiting.signal, onPoll: (outage) => this.#polled(outage) });
      this.#closed(user);
      this.#codePanel.paired(worker);
      await this.#list();
    } catch (error) {
      if (waiting.signal.aborted) return;
      this.#closed(user);
      this.#failed(error);
    }
  }

  /** Shows an outage while the page waits for a worker, and its end. */
  #polled(outage: ComputeRouterError | null): void {
    if (outage !== null && !isSilence(outage)) return;
    this.#codePanel.answered(outage === null);
    if (outage === null && this.#lacksList) void this.#list();
  }

  async #list(): Promise<void> {
    const router = this.#router;
    if (router === null) return;
    this.#lacksList = false;
    this.#listedAt = Date.now();
    this.#workersPanel.asking();
    try {
      const list = await router.trust.list();
      if (router !== this.#router) return;
      this.#workersPanel.show(list);
      this.#codePanel.answered(true);
    } catch (error) {
      if (router !== this.#router) return;
      this.#lacksList = true;
      const isRefused = this.#refusesToken(error);
      this.#workersPanel.failed(isRefused ? "The list needs the token of this user id." : errorText(error));
      if (isRefused) this.#userPanel.refuseToken(false);
    }
  }

  #closed(user: User): void {
    this.#open = null;
    writeOpenCode(this.#session, user, null);
  }

  /** True if the coordinator refuses the token that it was given. It has one answer for a missing token and a wrong one. */
  #refusesToken(error: unknown): boolean {
    return reasonOf(error) === "user_token_required" && this.#user?.userToken != null;
  }

  #failed(error: unknown): void {
    const isRefused = this.#refusesToken(error);
    // The panel of the user says it.
    const text = isRefused ? "" : errorText(error);
    // An open code is as valid as before, and the page still waits for its worker.
    if (this.#open === null) this.#codePanel.failed(text, isSilence(error));
    else this.#codePanel.refused(text, isSilence(error));
    if (isRefused) this.#userPanel.refuseToken(true);
    else if (reasonOf(error) === "user_token_required") this.#userPanel.askToken();
  }
}

function reasonOf(error: unknown): unknown {
  return error instanceof Error && "reason" in error ? error.reason : null;
}

/** True if the coordinator did not answer, or could not. With a 429 it has answered. */
function isSilence(error: unknown): boolean {
  return error instanceof RouterConnectionError || error instanceof UnavailableError;
}

/** The text for an error: what went wrong, and what a person can do about it. */
function errorText(error: unknown): string {
  if (!(error instanceof ComputeRouterError)) return "Something unexpected went wrong. Reload the page.";
  if (error.reason === "user_token_required") return "A token protects this user id. Enter the token under “You”.";
  if (error.reason === "expired") return "No worker claimed the code within one hour.";
  if (error instanceof RateLimitedError) return `Too many requests, or five codes are already open. Try again in ${pauseText(error.retryAfter)}.`;
  if (error instanceof RouterConnectionError) return "No answer from the coordinator. Is this device online?";
  if (error instanceof UnavailableError) return "The coordinator cannot answer at the moment. Try again soon.";
  return `The coordinator refused the request: ${error.message}`;
}

function pauseText(ms: number | null): string {
  const seconds = Math.ceil((ms ?? 60_000) / 1_000);
  return seconds > 90 ? `${Math.ceil(seconds / 60)} minutes` : `${seconds} seconds`;
}

/** The storage, or null if the browser forbids it: then even reading `localStorage` throws. */
function allowed(storage: () => Storage): Storage | null {
  try {
    return storage();
  } catch {
    return null;
  }
}

setText(element("host", HTMLElement), location.host);
const page = new PairPage({
  origin: location.origin,
  store: allowed(() => localStorage),
  session: allowed(() => sessionStorage),
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") page.returned();
});
window.addEventListener("storage", ({ key }) => {
  if (key === USER_KEY) page.follow();
});
window.addEventListener("online", () => page.returned());
page.start();
