// The simulated facilitator: verify and settle, with the faults of the plan.
import type { Settlement } from "../../src/coordinator/dispatch/index.ts";
import type { Authorization } from "./chain.ts";
import type { World } from "./world.ts";

export type Verification = { kind: "valid"; payer: string } | { kind: "invalid" } | { kind: "unavailable" };

/** How long the coordinator waits for an answer, ms [PY8]. */
const PATIENCE = { verify: 5_000, settle: 20_000 } as const;
const LOST: Settlement = { kind: "unknown", lost: true };

/**
 * The facilitator, as the reference one behaves: it looks first (used, expired, poor), then sends the transfer, and of two transfers
 * under way at once the later one fails without saying why. While faults last it is slow, hangs, answers 500 before or after the money
 * moved, loses answers, gives up its wait for the chain and says so, does not take the question, or refuses for a reason of its own.
 */
export class Facilitator {
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  verify(authorization: Authorization, forged: boolean, done: (said: Verification) => void): void {
    const { agenda, money, chain, calm } = this.#world;
    const { random, plan } = money;
    if (!calm && random.chance(plan.verifyTrouble)) return agenda.after(random.pick([20, PATIENCE.verify]), () => done({ kind: "unavailable" }));
    agenda.after(random.between(5, random.pick([50, 1_500])), () => {
      const isGood = !forged && chain.obstacle(authorization, agenda.now) === null;
      done(isGood ? { kind: "valid", payer: authorization.payer } : { kind: "invalid" });
    });
  }

  /** Calls `done` once: with the answer, or with `unknown` when patience ends. The money may move after that. */
  settle(authorization: Authorization, done: (said: Settlement) => void): void {
    const { agenda, money, chain, calm } = this.#world;
    const { random, plan } = money;
    let isOpen = true;
    const answer = (said: Settlement) => {
      if (isOpen) done(said);
      isOpen = false;
    };
    agenda.after(PATIENCE.settle, () => answer(LOST));
    const trouble = !calm && random.chance(plan.settleTrouble) ? random.pick(plan.settleTroubles) : "none";
    if (trouble === "error before") return agenda.after(random.between(10, 3_000), () => answer(LOST));
    if (trouble === "busy") return agenda.after(random.between(10, 300), () => answer({ kind: "not_asked" }));
    if (trouble === "hangs dead") return;
    const obstacle = chain.obstacle(authorization, agenda.now);
    if (obstacle !== null) return agenda.after(random.between(10, 300), () => answer({ kind: obstacle === "used" ? "already_used" : "refused" }));
    if (trouble === "refuses") return agenda.after(random.between(10, 300), () => answer({ kind: "refused" }));
    if (trouble === "gives up") agenda.after(random.between(1_000, 3_000), () => answer({ kind: "unknown", lost: false }));
    const slow = trouble === "slow" || trouble === "hangs" || trouble === "late" || trouble === "gives up";
    agenda.after(slow ? random.between(3_000, trouble === "slow" ? 19_000 : 40_000) : random.between(50, 2_500), () => {
      const failed = chain.move(authorization, agenda.now);
      if (failed === null) money.moved(authorization.key);
      if (trouble === "loses" || trouble === "hangs") return;
      if (trouble === "error after") return answer(LOST);
      agenda.after(random.between(5, 200), () =>
        answer(failed === null ? { kind: "settled", transaction: `tx ${authorization.key}` } : { kind: "unknown", lost: false }),
      );
    });
  }
}
