// The simulated payers, and the routers that their requests go through [PY5].
import type { JobFacts, PaymentFacts } from "../../src/coordinator/dispatch/index.ts";
import { START } from "./agenda.ts";
import type { Order, Variant } from "./paying-plan.ts";
import type { World } from "./world.ts";

/** One paid request on its way through a router: its own job id, whatever becomes of it. */
export type PaidRequest = { id: string; order: Order; facts: PaymentFacts };

const TRIES = 3;

/** Those who pay, and the routers that their requests go through [PY5]. */
export class Seekers {
  readonly #world: World;
  readonly #repeated = new Map<string, number>();
  #requests = 0;
  #orders = 0;

  constructor(world: World) {
    this.#world = world;
  }

  start(): void {
    for (const order of this.#world.money.plan.orders) this.#place(order);
  }

  #place(order: Order): void {
    const { agenda, chain } = this.#world;
    this.#world.money.signed({ key: order.key, payer: order.payer, asset: order.asset, amount: order.amount, expiresAt: START + order.at + order.validFor });
    for (const { after, variant } of order.requests) agenda.at(START + order.at + after, () => this.#request(order, variant));
    if (order.cancelAt !== null) agenda.at(START + order.cancelAt, () => chain.cancel(order.key, agenda.now));
  }

  /** A paid job has failed: the same request again, and another with a fresh payment [PY9]. */
  failed(request: PaidRequest): void {
    const { agenda, money, calm } = this.#world;
    const { random, plan } = money;
    const { order } = request;
    const count = this.#repeated.get(order.key) ?? 0;
    if (calm || count >= 3) return;
    this.#repeated.set(order.key, count + 1);
    if (random.chance(plan.repeats)) {
      for (let n = random.pick([1, 1, 4]); n > 0; n--) agenda.after(random.between(0, random.pick([10, 4_000])), () => this.#request(order, "same"));
    }
    if (!random.chance(plan.renews)) return;
    const at = agenda.now - START + random.between(0, 6_000);
    const requests = [
      { after: 0, variant: "same" },
      { after: random.between(0, 30_000), variant: "same" },
    ] as const;
    const amount = random.chance(0.7) ? order.amount : random.pick([1_000, 10_000]);
    this.#place({
      ...order,
      key: `n${++this.#orders}`,
      asset: random.chance(0.8) ? order.asset : "other",
      amount,
      at,
      cancelAt: null,
      forged: false,
      requests,
    });
  }

  #request(order: Order, variant: Variant): void {
    const { money, stats } = this.#world;
    const { plan, random } = money;
    const id = `p${++this.#requests}`;
    stats.paidRequests++;
    const mark = variant === "same" ? "" : ` ${variant} ${id}`;
    const facts: PaymentFacts = {
      key: order.key,
      digest: `digest ${order.key}${variant === "other signature" ? mark : ""}`,
      binding: `binding ${order.key}${variant === "other body" ? mark : ""}`,
      payer: plan.readsPayer ? (order.forged ? random.pick(plan.balances)[0] : order.payer) : null,
      asset: order.asset,
      amount: String(order.amount),
      expiresAt: START + order.at + order.validFor,
    };
    const request = { id, order, facts };
    money.requested(request);
    this.#reserve(request, TRIES, 140);
  }

  #job({ id, order }: PaidRequest): JobFacts {
    const { jobType, privacyClass, userId } = order;
    return this.#world.submitted({ id, jobType, policy: order.amount === 10_000 ? "FAST" : "CHEAP", privacyClass, userId });
  }

  #reserve(request: PaidRequest, tries: number, waits: number): void {
    const { hub, agenda, money, facilitator, calm } = this.#world;
    const { random, plan } = money;
    hub.reserve(request.facts, this.#job(request), (said) => {
      if (said === "lost") {
        if (tries > 1) agenda.after(random.between(50, 2_000), () => this.#reserve(request, tries - 1, waits));
        return;
      }
      money.answered(request, said);
      if (said.state === "busy" && waits > 0) return agenda.after(500, () => this.#reserve(request, tries, waits - 1));
      if (said.state !== "reserved" && said.state !== "credit") return;
      if (!calm && random.chance(plan.routerDies)) return;
      const { order } = request;
      const stall = !calm && random.chance(plan.routerStalls) ? random.between(61_000, 75_000) : 0;
      // Whoever waits for that router gives up on it.
      if (stall > 0) agenda.after(random.between(60_000, 64_000), () => this.#request(order, random.pick(["same", "other body", "other signature"])));
      if (said.state === "credit") return agenda.after(stall, () => this.#submit(request, order.payer, TRIES));
      facilitator.verify(money.authorization(order.key), order.forged, (verified) => {
        if (!this.#world.calm && random.chance(plan.routerDies)) return;
        agenda.after(stall, () => (verified.kind === "valid" ? this.#submit(request, verified.payer, TRIES) : this.#release(request, TRIES)));
      });
    });
  }

  #release(request: PaidRequest, tries: number): void {
    const { hub, agenda, money } = this.#world;
    hub.release(request.facts.key, request.id, (said) => {
      if (said === "lost" && tries > 1) agenda.after(money.random.between(50, 2_000), () => this.#release(request, tries - 1));
      else if (said === "accepted") money.refused(request);
    });
  }

  #submit(request: PaidRequest, payer: string, tries: number): void {
    const { hub, agenda, money } = this.#world;
    hub.submit(
      this.#job(request),
      (said) => {
        if (said === "accepted") {
          this.#world.accepted.add(request.id);
          if (money.late.chance(money.plan.cancelsJobs)) agenda.after(money.late.between(0, money.late.pick([300, 20_000])), () => hub.cancel(request.id));
          if (hub.settledByRequest(request.facts.key)) this.#settle(request.order);
        } else if (said === "refused" || said === "no_trusted_worker") money.refused(request);
        else if (tries > 1) agenda.after(money.random.between(50, 2_000), () => this.#submit(request, payer, tries - 1));
      },
      // A router of an earlier version leaves it to the hub.
      { key: request.facts.key, payer, byRequest: money.plan.routersSettle },
    );
  }

  /** A router settles what it has brought, and tells the hub; some die before, some after, and some tell it late [PY7]. */
  #settle({ key }: Order): void {
    const { hub, money, facilitator, stats, agenda } = this.#world;
    const dies = () => !this.#world.calm && money.random.chance(money.plan.routerDies);
    if (dies()) return;
    stats.settlingByRequest++;
    facilitator.settle(money.authorization(key), (settlement) => {
      if (dies()) return;
      if (money.late.chance(money.plan.reportsLate)) agenda.after(money.late.between(1_000, 120_000), () => hub.settled(key, settlement));
      else hub.settled(key, settlement);
    });
  }
}
