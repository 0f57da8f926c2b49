import { parseJson } from "../src/protocol/json.ts";

/** A line of the coordinator's log with its time: as the first member if the line is a JSON object, so that it stays JSON; otherwise in front. */
export function dated(line: string, now: Date = new Date()): string {
  return isObject(line) ? datedJson(line, now) : `${now.toISOString()} ${line}`;
}

/** The same for a place that shows the time of other lines by itself. */
export function datedJson(line: string, now: Date = new Date()): string {
  return isObject(line) ? `{"time":${JSON.stringify(now.toISOString())},${line.slice(1)}` : line;
}

/** True for a JSON object with a member, from its first byte on: so the log functions of the coordinator write it. */
function isObject(line: string): boolean {
  return line.startsWith('{"') && parseJson(line) !== undefined;
}
