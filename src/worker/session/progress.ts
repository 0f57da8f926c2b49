/** Characters of text in one frame; the rest follows in the next one. */
const FRAME_CHARS = 32_768;
/** Frames that are sent once more after a cut: the last ones may have gone into a dead socket, and a repeat is ignored [WS9]. */
const TAIL_FRAMES = 32;

/** The streamed text of one attempt: what waits to be sent, and the last that was. */
export type Progress = { seq: number; waiting: string; tail: { seq: number; delta: string }[] };

/** The stream of an attempt that begins. */
export function emptyProgress(): Progress {
  return { seq: 0, waiting: "", tail: [] };
}

/** Takes what waits, joined, as the next frame's delta; `seq` counts from 0. Empty text makes a frame too: a sign of life. */
export function nextDelta(progress: Progress): { seq: number; delta: string } {
  let end = Math.min(progress.waiting.length, FRAME_CHARS);
  // Half a surrogate pair would not survive UTF-8.
  if (end < progress.waiting.length && /[\uD800-\uDBFF]/.test(progress.waiting.charAt(end - 1))) end -= 1;
  const frame = { seq: progress.seq++, delta: progress.waiting.slice(0, end) };
  progress.waiting = progress.waiting.slice(end);
  progress.tail.push(frame);
  if (progress.tail.length > TAIL_FRAMES) progress.tail.shift();
  return frame;
}
