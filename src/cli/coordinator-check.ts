import * as z from "zod";
import { Health } from "../protocol/health.ts";
import { reasonOf } from "../worker/node/connect-reason.ts";
import { type CoordinatorPlace, coordinatorName } from "../worker/node/desktop-worker.ts";
import { SESSION_TIMING, verdictOf } from "../worker/session/index.ts";
import type { Check } from "./check.ts";
import { EXIT } from "./exit-code.ts";
import { coordinatorUrls } from "./url-option.ts";
import { hasWebSocket } from "./version.ts";

const TIMEOUT_MS = 5_000;

const Challenge = z.object({ type: z.literal("challenge"), network: z.string(), host: z.string() });

/** What a coordinator says about itself, and how well this machine's clock agrees with it. */
type Answer = { network: string; workersOnline: number; ms: number; skewMs: number };

/** Whether a worker can work for a coordinator: it answers, the clocks agree, its socket opens and names the host that was dialled. */
export async function checkCoordinator({ url, network }: CoordinatorPlace): Promise<Check[]> {
  const name = coordinatorName(url);
  const answer = await askHealth(url);
  if (typeof answer === "string") {
    return [
      {
        name,
        state: "fail",
        message: answer,
        fix: "is the address right, and does the coordinator run?",
        exit: EXIT.unreachable,
      },
    ];
  }
  const plural = answer.workersOnline === 1 ? "worker" : "workers";
  const reached: Check =
    network !== undefined && network !== answer.network
      ? {
          name,
          state: "fail",
          message: `serves ${answer.network}, but ${network} is wanted`,
          fix: "correct --network, or `network` in the configuration",
          exit: EXIT.refused,
        }
      : { name, state: "ok", message: `${answer.network}, ${answer.workersOnline} ${plural} online, answered in ${answer.ms} ms` };
  return [reached, clock(answer.skewMs), await checkSocket(url)];
}

async function askHealth(url: string): Promise<Answer | string> {
  const before = Date.now();
  try {
    const response = await fetch(`${coordinatorUrls(url).base}/v1/health`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const text = await response.text();
    const after = Date.now();
    if (!response.ok) return `answers HTTP ${response.status}`;
    const health = Health.safeParse(readJson(text));
    if (!health.success) return "answers, but is not a coordinator";
    const { network, workers_online: workersOnline, timestamp } = health.data;
    return { network, workersOnline, ms: after - before, skewMs: (before + after) / 2 - Date.parse(timestamp) };
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError") return `no answer in ${TIMEOUT_MS / 1000} s`;
    const reason = reasonOf(error);
    return reason === null ? "cannot be reached" : `cannot be reached: ${reason}`;
  }
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function clock(skewMs: number): Check {
  const off = Math.abs(skewMs);
  const side = `${off < 1_000 ? `${Math.round(off)} ms` : `${Math.round(off / 1000)} s`} ${skewMs < 0 ? "behind" : "ahead of"} the coordinator's`;
  const verdict = verdictOf(off, SESSION_TIMING);
  if (verdict === "right") return { name: "clock", state: "ok", message: side };
  const fix = "set this machine's clock, best by NTP (timedatectl set-ntp true)";
  if (verdict === "doubtful") return { name: "clock", state: "warn", message: side, fix };
  return { name: "clock", state: "fail", message: `${side}: its receipts are not valid`, fix, exit: EXIT.refused };
}

/** Opens a socket and reads the challenge. It does not register: that would replace this worker if it runs [WS7]. */
async function checkSocket(url: string): Promise<Check> {
  if (!hasWebSocket()) return { name: "socket", state: "warn", message: "not checked: this Node has no WebSocket" };
  const { host } = new URL(url);
  const socket = new WebSocket(url);
  let timer: NodeJS.Timeout | undefined;
  const text = await new Promise<string | null>((resolve) => {
    socket.addEventListener("message", ({ data }) => resolve(typeof data === "string" ? data : ""));
    socket.addEventListener("close", () => resolve(null));
    timer = setTimeout(() => resolve(socket.readyState === WebSocket.OPEN ? "" : null), TIMEOUT_MS);
  });
  clearTimeout(timer);
  socket.close();
  if (text === null) {
    return {
      name: "socket",
      state: "fail",
      message: "the coordinator takes no WebSocket there",
      fix: "a proxy in between has to pass the Upgrade header on",
      exit: EXIT.unreachable,
    };
  }
  const challenge = Challenge.safeParse(readJson(text));
  if (!challenge.success) return { name: "socket", state: "warn", message: "opens, but sends no challenge: this worker cannot prove its key there" };
  if (challenge.data.host.toLowerCase() === host) return { name: "socket", state: "ok", message: "opens, and asks for a signature for the right host" };
  const fix = `dial ${challenge.data.host}, or set PUBLIC_HOST=${host} at the coordinator`;
  return {
    name: "socket",
    state: "fail",
    message: `the coordinator calls itself ${challenge.data.host}, ${host} was dialled: no signature is given`,
    fix,
    exit: EXIT.refused,
  };
}
