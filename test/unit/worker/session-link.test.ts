import { describe, expect, it } from "vitest";
import { registerText } from "../../../src/protocol/worker-messages.ts";
import { type Effect, SESSION_TIMING } from "../../../src/worker/session/state.ts";
import { deeds, HOST, KEY, NETWORK, notes, PROFILE, sent, SessionBench } from "./support/session-bench.ts";

function started(options?: ConstructorParameters<typeof SessionBench>[0]): SessionBench {
  const bench = new SessionBench(options);
  bench.apply({ type: "start" });
  bench.open();
  return bench;
}

describe("challenge and registration", () => {
  it("[WS3] signs exactly the text of the protocol, for the host that it connected to", () => {
    const effects = started().challenge();
    const text = registerText({ network: NETWORK, host: HOST, nonce: "ab".repeat(32), pubkey: KEY.publicKey });
    expect(effects).toContainEqual({ type: "sign", conn: 1, text });
  });

  it("[WS3] registers with key, kind, capabilities, models, ack and resume", () => {
    const bench = started();
    bench.challenge();
    const [frame] = sent(bench.apply({ type: "signed", conn: 1, signature: "sig" }));
    expect(frame).toEqual({
      type: "register",
      provider_pubkey: KEY.publicKey,
      provider_type: "DESKTOP",
      capabilities: PROFILE.capabilities,
      models: ["tiny"],
      features: ["ack", "chat"],
      signature: "sig",
      resume: [],
    });
  });

  it("[WS3] cuts what is too long for the coordinator, which would refuse the registration", () => {
    const long = "x".repeat(300);
    const bench = started({ profile: { ...PROFILE, name: long, models: Array.from({ length: 101 }, (_, at) => `model-${at}`) } });
    bench.challenge();
    const [frame] = sent(bench.apply({ type: "signed", conn: 1, signature: "sig" }));
    expect(frame).toMatchObject({ name: "x".repeat(128), models: Array.from({ length: 100 }, (_, at) => `model-${at}`) });
  });

  it("[WS3] never signs for another host: it warns and registers without a signature", () => {
    const effects = started().challenge("evil.example");
    expect(deeds(effects)).not.toContain("sign");
    expect(sent(effects)[0]).toMatchObject({ type: "register" });
    expect(sent(effects)[0]).not.toHaveProperty("signature");
    expect(notes(effects)[0]).toMatchObject({ type: "warning", code: "other_host" });
  });

  it("[WS3] reads the host of a challenge without regard to case", () => {
    const bench = started();
    expect(deeds(bench.challenge(HOST.toUpperCase()))).toEqual(["sign"]);
  });

  it("[WS3] does not register with a coordinator of another network than the configured one", () => {
    const effects = started({ network: "eip155:1" }).challenge();
    expect(sent(effects)).toEqual([]);
    expect(notes(effects)).toContainEqual(expect.objectContaining({ type: "stopped", reason: "other_network" }));
  });

  it("[WS2] a coordinator without a challenge gets a registration without a signature after 2 s", () => {
    const bench = started();
    expect(sent(bench.pass(1_999))).toEqual([]);
    expect(sent(bench.pass(1))[0]).toMatchObject({ type: "register", resume: [] });
  });

  it("[WS2] a challenge that comes late is still signed", () => {
    const bench = started();
    bench.pass(2_000);
    expect(deeds(bench.challenge())).toEqual(["sign"]);
  });

  it("[WS4] refused because the signature is missing, and no challenge came: it reconnects and waits longer for a challenge, then stops", () => {
    const bench = started();
    bench.pass(2_000);
    bench.receive({ type: "register_ack", status: "error", error: "auth_required" });
    expect(bench.state.link.kind).toBe("waiting");
    bench.pass(5_000);
    bench.open();
    expect(sent(bench.pass(7_999))).toEqual([]);
    bench.pass(1);
    bench.receive({ type: "register_ack", status: "error", error: "auth_required" });
    expect(bench.state.link).toMatchObject({ kind: "stopped", stop: { reason: "refused" } });
  });

  it.each(["before", "after"])(
    "[WS4] the answer to a registration that was too early does not blame the signature that is made meanwhile: it comes %s that is sent",
    (when) => {
      const bench = started();
      bench.pass(2_000);
      bench.challenge();
      if (when === "after") bench.apply({ type: "signed", conn: 1, signature: "sig" });
      bench.receive({ type: "register_ack", status: "error", error: "auth_required" });
      bench.close(4401, "a signature is required");
      expect(bench.state.link.kind).toBe("waiting");
      expect(bench.state.patient).toBe(true);
    },
  );

  it.each([["invalid_signature"], ["invalid_key"], ["invalid_register"]])("[WS4] a registration refused with %s is not tried again", (error) => {
    const bench = started();
    bench.challenge();
    bench.apply({ type: "signed", conn: 1, signature: "sig" });
    bench.receive({ type: "register_ack", status: "error", error });
    expect(bench.state.link).toMatchObject({ kind: "stopped", stop: { reason: "refused" } });
  });

  it("[WS4] refused because it did not sign for another host: it says which host to use", () => {
    const bench = started();
    bench.challenge("router.example");
    bench.receive({ type: "register_ack", status: "error", error: "auth_required" });
    expect(bench.state.link).toMatchObject({ kind: "stopped", stop: { message: expect.stringContaining("use router.example") } });
  });

  it("[WS3] changed capabilities are announced on the registered socket without resume, so that its lease stays", () => {
    const bench = new SessionBench();
    bench.goOnline();
    const [frame] = sent(bench.apply({ type: "announce", profile: { ...PROFILE, capabilities: ["TASK"], models: [] } }));
    expect(frame).toMatchObject({ type: "register", capabilities: ["TASK"] });
    expect(frame).not.toHaveProperty("resume");
  });

  it("[WS3, LM2] a change that the coordinator did not read is announced again until it is answered, as the worker is then", () => {
    const bench = new SessionBench();
    bench.goOnline();
    const announces = (effects: Effect[]) => sent(effects).flatMap(({ type, models }) => (type === "register" ? [models] : []));
    const announce = (model: string) => announces(bench.apply({ type: "announce", profile: { ...PROFILE, models: [model] } }));
    expect(announce("one")).toEqual([["one"]]);
    expect(announce("two")).toEqual([["two"]]);
    bench.receive({ type: "register_ack", status: "ok" });
    bench.receive({ type: "error", code: "rate_limited", message: "more updates than 1 a second; this frame was not read" });
    expect(announces(bench.pass(1.5 * SESSION_TIMING.announce - 1))).toEqual([]);
    expect(announces(bench.pass(1))).toEqual([["two"]]);
    bench.receive({ type: "error", code: "rate_limited" });
    expect(announces(bench.pass(1.5 * SESSION_TIMING.announce))).toEqual([["two"]]);
    bench.receive({ type: "register_ack", status: "ok" });
    expect(announces(bench.pass(60_000))).toEqual([]);
  });

  it("[WS3] a coordinator that sends no challenge may not answer a change: it is announced once", () => {
    const bench = started();
    bench.pass(2_000);
    bench.receive({ type: "register_ack", status: "ok" });
    bench.apply({ type: "announce", profile: { ...PROFILE, models: ["other"] } });
    expect(sent(bench.pass(60_000)).filter(({ type }) => type === "register")).toEqual([]);
  });

  it("[WS3] capabilities that change during the registration are announced after its answer", () => {
    const bench = started();
    bench.challenge();
    bench.apply({ type: "signed", conn: 1, signature: "sig" });
    expect(sent(bench.apply({ type: "announce", profile: { ...PROFILE, models: ["other"] } }))).toEqual([]);
    expect(sent(bench.receive({ type: "register_ack", status: "ok" }))).toEqual([expect.objectContaining({ type: "register", models: ["other"] })]);
  });

  it("[WS3] capabilities that change before the registration are part of it, and are not announced earlier", () => {
    const bench = started();
    expect(sent(bench.apply({ type: "announce", profile: { ...PROFILE, models: ["other"] } }))).toEqual([]);
    bench.challenge();
    expect(sent(bench.apply({ type: "signed", conn: 1, signature: "sig" }))[0]).toMatchObject({ models: ["other"] });
  });
});

describe("close codes", () => {
  it.each([
    [4001, "replaced"],
    [4400, "refused"],
    [4401, "refused"],
  ])("[WS4] %i ends the session: %s", (code, reason) => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.close(code);
    expect(bench.state.link).toMatchObject({ kind: "stopped", stop: { reason } });
    expect(bench.pass(3_600_000)).toEqual([]);
  });

  it("[WS4] 4001 stops the running job", () => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.assign();
    expect(deeds(bench.close(4001))).toContain("abort");
  });

  it.each([[1006], [1012], [4008], [1000], [1009]])("[WS4] after %i it comes back", (code) => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.close(code);
    expect(deeds(bench.pass(5_000))).toEqual(["dial"]);
  });

  it("[WS4] parked: it stays away for the time that the coordinator says", () => {
    const bench = started({ random: 0 });
    bench.challenge();
    bench.apply({ type: "signed", conn: 1, signature: "sig" });
    bench.receive({ type: "register_ack", status: "error", error: "parked", retry_after_s: 120 });
    expect(deeds(bench.pass(119_999))).toEqual([]);
    expect(deeds(bench.pass(1))).toEqual(["dial"]);
  });

  it("[WS4] closed with 4003 without a time: it stays away for a minute; never for much more than an hour", () => {
    const bench = new SessionBench({ random: 0 });
    bench.goOnline();
    bench.close(4003);
    expect(bench.state.link).toMatchObject({ kind: "waiting", due: 60_000 });
    bench.pass(60_000);
    bench.open();
    bench.challenge();
    bench.apply({ type: "signed", conn: bench.conn, signature: "sig" });
    bench.receive({ type: "register_ack", status: "error", error: "parked", retry_after_s: 1e9 });
    expect(bench.state.link).toMatchObject({ kind: "waiting", due: bench.now + 3_600_000 });
  });

  it.each([
    ["by the answer to its registration", (bench: SessionBench) => bench.receive({ type: "register_ack", status: "error", error: "already_connected" })],
    ["by the close alone", (bench: SessionBench) => bench.close(4409)],
  ])("[WS7, WS4] refused beside another socket of its key, %s: it says so and comes back after 15 s", (_, refuse) => {
    const bench = started({ random: 0 });
    bench.challenge("relay.example");
    expect(notes(refuse(bench))).toContainEqual({
      type: "offline",
      code: 4409,
      cause: expect.stringContaining("another connection of this key"),
      retry_in_ms: 15_000,
    });
    expect(deeds(bench.pass(14_999))).toEqual([]);
    expect(deeds(bench.pass(1))).toEqual(["dial"]);
  });

  it("[WS4] full jitter: 0 to 5 s at first, then up to a limit that doubles to 30 s", () => {
    const bench = new SessionBench({ random: 0.999 });
    bench.apply({ type: "start" });
    const delays: number[] = [];
    for (let i = 0; i < 5; i++) {
      bench.close(1006);
      if (bench.state.link.kind !== "waiting") throw new Error("not waiting");
      delays.push(bench.state.link.due - bench.now);
      bench.pass(delays.at(-1) ?? 0);
    }
    expect(delays).toEqual([4_995, 9_990, 19_980, 29_970, 29_970]);
  });

  it("[WS4] after a connection that lasted it starts at 0 to 5 s again, after one that broke at once it does not", () => {
    const bench = new SessionBench({ random: 0.999 });
    bench.apply({ type: "start" });
    for (let i = 0; i < 3; i++) {
      bench.close(1006);
      bench.pass(30_000);
    }
    bench.goOnline();
    bench.pass(10_000);
    bench.close(1006);
    expect(bench.state.tries).toBe(1);
    bench.pass(5_000);
    bench.goOnline();
    bench.close(1006);
    expect(bench.state.tries).toBe(2);
  });

  it("[WS7] late events of an older socket change nothing", () => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.close(1006);
    bench.pass(5_000);
    const before = structuredClone(bench.state);
    bench.apply({ type: "closed", conn: 1, code: 4001, reason: "" });
    bench.apply({ type: "frame", conn: 1, text: '{"type":"drained"}' });
    bench.apply({ type: "opened", conn: 1 });
    expect(bench.state).toEqual(before);
  });

  it("[WS4] a connection, a signature or a registration without an answer is given up", () => {
    const bench = new SessionBench();
    bench.apply({ type: "start" });
    expect(deeds(bench.pass(15_000))).toContain("close");
    bench.pass(5_000);
    bench.open();
    bench.challenge();
    bench.pass(10_000);
    expect(bench.state.link.kind).not.toBe("signing");
  });
});

describe("heartbeat", () => {
  it("[WS6] is the exact text every 10 s", () => {
    const bench = new SessionBench();
    bench.goOnline();
    const beats = bench.pass(60_000).filter((effect) => effect.type === "send");
    expect(beats).toEqual(Array.from({ length: 6 }, () => ({ type: "send", conn: 1, text: '{"type":"heartbeat"}' })));
  });

  it("[WS6] without an acknowledgement for 30 s it closes the socket and reconnects", () => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.pass(29_999, { acks: false });
    expect(bench.state.link.kind).toBe("online");
    const effects = bench.pass(1, { acks: false });
    expect(deeds(effects)).toEqual(["close"]);
    expect(notes(effects)).toContainEqual(expect.objectContaining({ type: "offline", cause: "the coordinator is silent" }));
  });

  it("[WS6] every frame is a sign of life, even one that it does not understand", () => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.pass(25_000, { acks: false });
    bench.receive("what?");
    bench.pass(25_000, { acks: false });
    expect(bench.state.link.kind).toBe("online");
  });

  it("[WS6] a coordinator that sends neither challenges nor acknowledgements may be silent", () => {
    const bench = started();
    bench.pass(2_000);
    bench.receive({ type: "register_ack", status: "ok" });
    bench.pass(600_000, { acks: false });
    expect(bench.state.link.kind).toBe("online");
  });

  it("[WS4] a coordinator may ask for more heartbeats, but not for fewer", () => {
    const bench = started();
    bench.challenge();
    bench.apply({ type: "signed", conn: 1, signature: "sig" });
    bench.receive({ type: "register_ack", status: "ok", heartbeat_interval_ms: 60_000 });
    expect(sent(bench.pass(10_000))).toContainEqual({ type: "heartbeat" });
  });

  it.each([[0], [1], [-5]])("[WS4] a coordinator that asks for a heartbeat every %i ms gets one a second", (interval) => {
    const bench = new SessionBench();
    bench.goOnline({ heartbeat_interval_ms: interval });
    expect(sent(bench.pass(10_000))).toHaveLength(10);
  });
});

it("[ST2] a new tier is reported; an unknown tier, and a tier before the registration, are ignored", () => {
  const bench = started();
  bench.challenge();
  expect(notes(bench.receive({ type: "tier", tier: "Verified" }))).toEqual([]);
  const online = new SessionBench();
  online.goOnline();
  expect(notes(online.receive({ type: "tier", tier: "Verified" }))).toEqual([{ type: "tier", tier: "Verified" }]);
  expect(online.receive({ type: "tier", tier: "Gold" })).toEqual([]);
  expect(online.receive({ type: "tier" })).toEqual([]);
  expect(online.state.link.kind).toBe("online");
});

describe("a nudge: the network is back, or the machine woke", () => {
  it("[WS4] ends the wait for the next try", () => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.close(1006);
    expect(deeds(bench.apply({ type: "nudge" }))).toEqual(["dial"]);
    expect(deeds(bench.apply({ type: "nudge" }))).toEqual([]);
  });

  it("[WS4] does not end a parking", () => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.close(4003);
    expect(deeds(bench.apply({ type: "nudge" }))).toEqual([]);
    expect(bench.state.link.kind).toBe("waiting");
  });

  it("[WS6] finds out in 5 s, not 30 s, that an open connection is dead", () => {
    const bench = new SessionBench();
    bench.goOnline();
    expect(sent(bench.apply({ type: "nudge" }))).toEqual([{ type: "heartbeat" }]);
    expect(bench.pass(4_999, { acks: false })).toEqual([]);
    expect(deeds(bench.pass(1, { acks: false }))).toEqual(["close"]);
  });

  it("[WS6] keeps a connection that answers", () => {
    const bench = new SessionBench();
    bench.goOnline();
    bench.apply({ type: "nudge" });
    bench.receive({ type: "heartbeat_ack" });
    bench.pass(60_000);
    expect(bench.state.link).toMatchObject({ kind: "online", conn: 1 });
  });
});

it("[WS1] invalid frames are ignored", () => {
  const bench = new SessionBench();
  bench.goOnline();
  const before = structuredClone(bench.state);
  for (const text of [
    "",
    "[]",
    "null",
    "1",
    "{",
    '{"type":5}',
    '{"type":"news"}',
    '{"type":"job_assign"}',
    `${"[".repeat(99)}${"]".repeat(99)}`,
    '{"type":"job_assign","job_id":"","job_type":"TASK","payload":{}}',
  ]) {
    expect(bench.receive(text)).toEqual([]);
  }
  expect(bench.state).toEqual(before);
});
