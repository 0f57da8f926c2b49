import type { SessionNote, Turn } from "./session-event.ts";
import type { SessionState } from "./state.ts";

/** The number of the present socket, or null. */
export function presentConn(state: SessionState): number | null {
  return "conn" in state.link ? state.link.conn : null;
}

/** Sends a frame when the worker is registered; says whether it did. */
export function sendFrame(state: SessionState, frame: object | string, turn: Turn): boolean {
  if (state.link.kind !== "online") return false;
  const text = typeof frame === "string" ? frame : JSON.stringify(frame);
  turn.effects.push({ type: "send", conn: state.link.conn, text });
  return true;
}

/** Tells the owner. */
export function tell(note: SessionNote, turn: Turn): void {
  turn.effects.push({ type: "note", note });
}
