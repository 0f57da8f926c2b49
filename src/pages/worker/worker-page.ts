// WorkerPage: connects the panels of the page with the engine. It tells the engine when to work and shows what the engine reports.
import type { WorkerIdentity } from "../../worker/browser/identity.ts";
import { HISTORY_JOBS, type StorageState } from "../../worker/browser/kept-store.ts";
import { type EngineMessage, FIRST_REPORT, type PageMessage, type Report } from "../../worker/browser/report.ts";
import { element, keepFocus, saveFile, setText } from "../shell/dom.ts";
import {
  type Conditions,
  leavesFor,
  type PageSettings,
  pauseOf,
  readSettings,
  ScreenLock,
  type ScreenState,
  type SettingsStore,
  writeSettings,
} from "./conditions.ts";
import { HistoryPanel } from "./history-panel.ts";
import { PairPanel } from "./pair-panel.ts";
import { EventsPanel, IdentityPanel, StatePanel, storageNotice, StoragePanel } from "./state-panel.ts";
import { exportOf, type View } from "./view.ts";

const SCREEN_HINT: Record<ScreenState, string> = {
  on: "The screen stays on while the worker is on and this page is visible.",
  released: "A locked phone stops the page.",
  refused: "The system does not allow it at the moment; perhaps it saves power.",
  unsupported: "This browser cannot do that. Set the device so that it does not lock.",
};

/** The boxes of the settings. */
const BOXES = [
  ["keep-screen-on", "keepScreenOn"],
  ["work-hidden", "workHidden"],
  ["save-battery", "saveBattery"],
] as const;

/** The page around the engine. */
export class WorkerPage {
  readonly #engineUrl: string;
  readonly #store: SettingsStore;
  readonly #settings: PageSettings;
  readonly #state = new StatePanel((act) => this.#act(act));
  readonly #events = new EventsPanel();
  readonly #identityPanel = new IdentityPanel(isSecureContext);
  readonly #pair = new PairPanel((code) => this.#claim(code));
  readonly #history = new HistoryPanel({ onExport: () => this.#export(), onClear: () => this.#engine?.send({ type: "clear_history" }) });
  readonly #storagePanel = new StoragePanel(() => this.#storeAgain());
  readonly #screen: ScreenLock;
  /** The code of the link that opened the page, until it was sent. */
  #linkedCode: string | null = null;
  #engine: EngineLink | null = null;
  #identity: WorkerIdentity | null = null;
  #report: Report = FIRST_REPORT;
  #storage: StorageState = "kept";
  #outdated = false;
  #conditions: Conditions = { hidden: false, online: true, battery: null };
  #delivered = 0;
  /** The last instruction to the engine. */
  #told: "work" | "rest" = "rest";
  #again: ReturnType<typeof setTimeout> | undefined;

  constructor(options: { engineUrl: string; store: SettingsStore; settings: PageSettings }) {
    this.#engineUrl = options.engineUrl;
    this.#store = options.store;
    this.#settings = options.settings;
    this.#screen = new ScreenLock("wakeLock" in navigator ? navigator.wakeLock : undefined, (state) => this.#screenSays(state));
    setText(element("host", HTMLElement), location.host);
    for (const [id, name] of BOXES) {
      const box = element(id, HTMLInputElement);
      box.addEventListener("change", () => this.#set({ [name]: box.checked }));
    }
    // Updates the seconds that count down.
    setInterval(() => this.#show(), 1_000);
  }

  /** Fills in a pairing code from the link that opened the page. */
  fillCode(code: string): void {
    this.#pair.fill(code);
    this.#linkedCode = code;
  }

  /** Starts the engine, because this tab is the worker now. */
  open(): void {
    this.#showWorker(true);
    if (this.#linkedCode !== null) this.#pair.focus();
    this.#readSettings();
    this.#told = "rest";
    const engine = new EngineLink(this.#engineUrl, (message) => {
      // A closed one has a moment to leave, and what it still says is no longer about this tab.
      if (engine === this.#engine) this.#heard(message);
    });
    this.#engine = engine;
  }

  /** Stops the engine, because another tab is the worker now. */
  close(): void {
    this.#engine?.close();
    this.#engine = null;
    this.#identity = null;
    this.#report = FIRST_REPORT;
    this.#outdated = false;
    this.#storageIs("kept");
    void this.#screen.want(false);
    this.#state.clear();
    this.#showWorker(false);
    this.#pair.interrupted();
  }

  /** Shows either the worker or that it is in another tab. */
  #showWorker(isHere: boolean): void {
    const main = element("main", HTMLElement);
    const moveFocus = keepFocus(main);
    element("worker", HTMLElement).hidden = !isHere;
    element("other-tab", HTMLElement).hidden = isHere;
    setText(element("other-code", HTMLElement), this.#linkedCode === null ? "" : `Take over here to use the pairing code ${this.#linkedCode}.`);
    moveFocus(main);
  }

  /** Applies changed conditions. */
  conditions(conditions: Conditions): void {
    this.#conditions = conditions;
    element("battery-row", HTMLElement).hidden = conditions.battery === null;
    this.#apply();
  }

  /** Checks the link, because the page or the network is back. */
  returned(): void {
    this.#engine?.send({ type: "nudge" });
    this.#apply();
  }

  /** Stops the work when the page is left, so that the coordinator does not wait for this worker. */
  left(): void {
    this.#engine?.send({ type: "stop" });
    this.#told = "rest";
  }

  #heard(message: EngineMessage): void {
    switch (message.type) {
      case "ready": {
        this.#identity = message.identity;
        this.#delivered = message.delivered;
        this.#showIdentity();
        setText(element("version", HTMLElement), `version ${message.version}, ${message.engine}`);
        this.#pair.show(message.pairings);
        this.#history.set(message.records);
        return this.#apply();
      }
      case "report":
        this.#report = message.report;
        // The session was ended from outside. A person decides whether to continue.
        if (message.report.link.kind === "ended") {
          this.#told = "rest";
          this.#set({ wanted: false });
        }
        return this.#show();
      case "record":
        this.#delivered = message.delivered;
        this.#history.put(message.record, HISTORY_JOBS);
        return this.#show();
      case "history_cleared":
        this.#history.set(this.#history.records.filter(({ outcome }) => outcome === "waiting"));
        return this.#show();
      case "paired":
        return this.#pair.show(message.pairings);
      case "pairing_failed":
        return this.#pair.fail(message.message);
      case "event":
        return this.#events.add(message);
      case "storage":
        return this.#storageIs(message.state);
      case "outdated":
        this.#outdated = true;
        return this.#apply();
      case "broken":
        // A thread goes on after an error, and would be a worker that nobody sees.
        this.#engine?.close();
        this.#engine = null;
        void this.#screen.want(false);
        this.#pair.interrupted();
        this.#identity = null;
        return this.#state.broken(message.message);
      default:
        return message satisfies never;
    }
  }

  #claim(code: string): void {
    this.#linkedCode = null;
    if (this.#engine === null) this.#pair.interrupted();
    else this.#engine.send({ type: "pair", code });
  }

  #act(act: View["button"]["act"]): void {
    switch (act) {
      case "start":
        // Asks the browser not to delete the key when it needs space.
        if ("storage" in navigator) void navigator.storage.persist().catch(() => false);
        return this.#set({ wanted: true });
      case "rest":
        return this.#set({ wanted: false });
      case "stop":
        this.#engine?.send({ type: "stop" });
        return this.#set({ wanted: false });
      case "reload":
        return location.reload();
      default:
        return act satisfies never;
    }
  }

  #storageIs(state: StorageState): void {
    if (state === this.#storage) return;
    this.#storage = state;
    this.#storagePanel.show(state);
    this.#showIdentity();
    const notice = storageNotice(state);
    if (notice !== null) this.#events.add({ at: Date.now(), tone: "warning", text: `${notice.title}.` });
    else if (state === "kept" && this.#identity !== null) this.#events.add({ at: Date.now(), tone: "info", text: "Everything is stored again." });
  }

  /** Another tab may have been the worker since this page was loaded, and its owner may have stopped it there. */
  #readSettings(): void {
    Object.assign(this.#settings, readSettings(this.#store, this.#settings));
    for (const [id, name] of BOXES) element(id, HTMLInputElement).checked = this.#settings[name];
  }

  #storeAgain(): void {
    this.#engine?.send({ type: "store_again" });
    writeSettings(this.#store, this.#settings);
  }

  #showIdentity(): void {
    if (this.#identity === null) return;
    // A key that was on disk stays there, unless the data was deleted.
    const isKept = this.#storage === "kept" || (this.#identity.kept && this.#storage !== "cleared" && this.#storage !== "blocked");
    this.#identityPanel.show(this.#identity, isKept);
  }

  #set(change: Partial<PageSettings>): void {
    Object.assign(this.#settings, change);
    writeSettings(this.#store, this.#settings);
    this.#apply();
  }

  /** Tells the engine to work or rest, from the settings and conditions. */
  #apply(): void {
    const { wanted, keepScreenOn } = this.#settings;
    this.#pair.follow(wanted);
    const works = wanted && !this.#outdated && !leavesFor(pauseOf(this.#conditions, this.#settings));
    const next = works ? "work" : "rest";
    if (this.#identity !== null && next !== this.#told) {
      this.#told = next;
      this.#engine?.send({ type: next });
    }
    if (!this.#conditions.hidden) void this.#screen.want(works && keepScreenOn && this.#engine !== null);
    this.#show();
  }

  #show(): void {
    if (this.#identity === null && !this.#outdated) return;
    const { link } = this.#report;
    const network = element("network", HTMLElement);
    network.hidden = !(link.kind === "online" && link.network !== null);
    if (link.kind === "online") setText(network, link.network ?? "");
    this.#state.count(this.#delivered, this.#history.records);
    const pause = pauseOf(this.#conditions, this.#settings);
    const { wanted } = this.#settings;
    const again = this.#state.show({ report: this.#report, wanted, pause, outdated: this.#outdated, host: location.host, now: Date.now() });
    clearTimeout(this.#again);
    if (again !== null) this.#again = setTimeout(() => this.#show(), again);
  }

  #screenSays(state: ScreenState): void {
    setText(element("screen-hint", HTMLElement), SCREEN_HINT[state]);
  }

  #export(): void {
    if (this.#identity === null) return;
    const { publicKey, words } = this.#identity;
    const now = new Date();
    saveFile(
      `receipts-${publicKey.slice(0, 8)}-${now.toISOString().slice(0, 10)}.json`,
      exportOf(this.#history.records, { publicKey, words, host: location.host }, now),
    );
  }
}

/** How long a stopped engine may take to leave the coordinator. */
const GOODBYE_MS = 1_000;

/** The engine in its own thread. Its timers continue when the browser slows down those of a hidden page. */
class EngineLink {
  readonly #thread: Worker;

  constructor(url: string, onMessage: (message: EngineMessage) => void) {
    this.#thread = new Worker(url, { name: "engine" });
    this.#thread.addEventListener("message", ({ data }: MessageEvent<EngineMessage>) => onMessage(data));
    this.#thread.addEventListener("error", () =>
      onMessage({ type: "broken", message: "The worker's program could not be loaded or has crashed. Reload the page." }),
    );
  }

  send(message: PageMessage): void {
    this.#thread.postMessage(message);
  }

  /** Stops the work and ends the thread. */
  close(): void {
    this.send({ type: "stop" });
    setTimeout(() => this.#thread.terminate(), GOODBYE_MS);
  }
}
