// Controls the payment lab over HTTP, for tests in another process or runtime.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { FaultRule } from "./facilitator/faults.ts";
import type { Facilitator } from "./facilitator/server.ts";
import type { Chains } from "./facilitator/schemes.ts";
import { type Listener, listen, readText, sendJson } from "./loopback.ts";
import { challengeOfBody, challengeOfHeader } from "./pay/challenge.ts";
import { balanceOf, pay, type PayOptions } from "./pay/pay.ts";

type Route = (body: Record<string, unknown>, query: URLSearchParams) => unknown;

/** Puts the lab's levers on HTTP, for tests in another process or another runtime. @throws when the port is taken */
export function startControl(port: number, chains: Chains, facilitator: Facilitator, description: () => unknown): Promise<Listener> {
  const routes = routesOf(chains, facilitator, description);
  return listen(port, async (request, response) => serve(routes, request, response));
}

async function serve(routes: Readonly<Record<string, Route>>, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://lab");
  const name = `${request.method} ${pathname}`;
  const route = Object.hasOwn(routes, name) ? routes[name] : undefined;
  if (route === undefined) return sendJson(response, 404, { error: "not_found", routes: Object.keys(routes) });
  try {
    const text = await readText(request);
    const body = text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
    sendJson(response, 200, (await route(body, searchParams)) ?? {});
  } catch (error) {
    sendJson(response, 400, { error: error instanceof Error ? error.message : String(error) });
  }
}

function routesOf(chains: Chains, facilitator: Facilitator, description: () => unknown): Record<string, Route> {
  const { evm, svm } = chains;
  const { faults, log } = facilitator;
  return {
    "GET /": description,
    "GET /faults": () => faults.rules,
    "POST /faults": (rule) => faults.add(faultRule(rule)),
    "DELETE /faults": () => faults.clear(),
    "POST /down": () => facilitator.down(),
    "POST /up": () => facilitator.up(),
    "POST /forget": () => facilitator.forget(),
    "GET /calls": () => ({ counts: log.counts, calls: log.calls }),
    "DELETE /calls": () => log.clear(),
    // `{ header | body, who?, envelope?, wrong? }`: signs a payment for a 402.
    "POST /pay": async ({ header, body, ...options }) => {
      const challenge = typeof header === "string" ? challengeOfHeader(header) : challengeOfBody(body);
      const { payer, payload, message, value } = await pay(chains, challenge, options satisfies PayOptions);
      return { payer, payload, message, value };
    },
    "GET /balance": async (_, query) => {
      const owner = query.get("owner") ?? "";
      const chain = owner.startsWith("0x") ? evm : svm;
      if (chain === undefined) throw new Error(`no chain for ${owner}`);
      return { owner, amount: String(await balanceOf(chain, owner)) };
    },
    "POST /evm/pause": () => evm?.pause(),
    "POST /evm/resume": () => evm?.resume(),
    "POST /svm/pause": () => svm?.pause(),
    "POST /svm/resume": () => svm?.resume(),
    "POST /svm/expire": () => svm?.expireBlockhashes(),
  };
}

const KINDS = ["hang", "slow", "status", "garbage", "reset", "lost", "refuse", "lie", "pending"];

function faultRule(body: Record<string, unknown>): FaultRule {
  const { operation, fault } = body as Partial<FaultRule>;
  if (operation === undefined || !["verify", "settle", "supported"].includes(operation)) throw new Error("operation must be verify, settle or supported");
  if (fault === undefined || !KINDS.includes(fault.kind)) throw new Error(`fault.kind must be one of ${KINDS.join(", ")}`);
  return body as FaultRule;
}
