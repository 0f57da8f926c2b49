/** When every history starts, ms since the epoch. */
export const START = 1_000_000;

type Task = { at: number; seq: number; run: () => void };

/** What happens when, in simulated time: a heap of tasks and the clock that moves to the next one. */
export class Agenda {
  now: number;
  #heap: Task[] = [];
  #seq = 0;

  constructor(start: number) {
    this.now = start;
  }

  /** Runs `run` after `delay` ms; tasks of one moment run in the order they were added. */
  after(delay: number, run: () => void): void {
    this.at(this.now + delay, run);
  }

  at(time: number, run: () => void): void {
    const task = { at: Math.max(time, this.now), seq: this.#seq++, run };
    const heap = this.#heap;
    let index = heap.length;
    heap.push(task);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent] as Task;
      if (before(above, task)) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = task;
  }

  /** Runs everything up to `end`, then stands at `end`. */
  runUntil(end: number): void {
    for (let first = this.#heap[0]; first !== undefined && first.at <= end; first = this.#heap[0]) {
      this.#pop();
      this.now = first.at;
      first.run();
    }
    this.now = end;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop() as Task;
    if (heap.length === 0) return;
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      if (left >= heap.length) break;
      const child = left + 1 < heap.length && before(heap[left + 1] as Task, heap[left] as Task) ? left + 1 : left;
      if (before(last, heap[child] as Task)) break;
      heap[index] = heap[child] as Task;
      index = child;
    }
    heap[index] = last;
  }
}

function before(a: Task, b: Task): boolean {
  return a.at < b.at || (a.at === b.at && a.seq < b.seq);
}
