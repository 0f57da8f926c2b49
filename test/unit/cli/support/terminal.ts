// Runs compute-router on a pseudo-terminal and reads its screen.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { onTestFinished } from "vitest";
import { CLI } from "../../../support/cli.ts";
import { until } from "../../../support/until.ts";

/** Whether terminals can be made here: by util-linux's `script`, which a plain Debian has. */
export const hasScript = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0;

/** A program on a terminal: all that it said, escape sequences too, what stands on the screen, and what to type. */
export type Terminal = {
  said: () => string;
  says: (text: string) => Promise<true>;
  screen: () => Screen;
  type: (text: string) => void;
  /** Sends SIGINT to the program alone, as npm does after a Ctrl-C. */
  interrupt: () => void;
  exited: Promise<number>;
};

/** The size of a terminal; a usual one is 80 × 24. */
export type Size = { columns: number; rows: number };

/** Runs `compute-router` on a terminal of its own. */
export function terminal(args: readonly string[], env: NodeJS.ProcessEnv = {}, { columns, rows }: Size = { columns: 120, rows: 50 }): Terminal {
  const command = [process.execPath, CLI, ...args].map((word) => `'${word}'`).join(" ");
  const child = spawn("script", ["-qefc", `stty cols ${columns} rows ${rows}; exec ${command}`, "/dev/null"], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"], TERM: "xterm", ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  const decoder = new TextDecoder();
  child.stdout.on("data", (data: Buffer) => (said += decoder.decode(data, { stream: true })));
  return {
    said: () => said,
    says: (text) =>
      until(
        `"${text}" on the terminal`,
        () => (said.includes(text) ? true : undefined),
        () => said,
      ),
    screen: () => new Screen({ columns, rows }).write(said),
    type: (text) => child.stdin.write(text),
    interrupt: () => void process.kill(Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8")), "SIGINT"),
    exited: once(child, "close").then(([code]) => Number(code)),
  };
}

/** One place of a screen. `style` is the SGR that it was written with, empty for the terminal's own colors. */
type Cell = { text: string; style: string };

/** An escape sequence with its parameters and its command, or one character. */
const SEQUENCE = new RegExp(`${String.fromCharCode(27)}\\[([\\d;]*)([A-Za-z])|[^]`, "gu");

const BLANK: Cell = { text: " ", style: "" };

/** What stands on a terminal: knows the few commands that this program and Node's line editor give, and throws at any other. */
export class Screen {
  readonly #size: Size;
  readonly #rows: Cell[][] = [[]];
  #row = 0;
  #column = 0;
  #style = "";

  constructor(size: Size) {
    this.#size = size;
  }

  write(text: string): this {
    for (const [part, parameters = "", command] of text.matchAll(SEQUENCE)) {
      if (command !== undefined) this.#obey(command, parameters);
      else this.#put(part);
    }
    return this;
  }

  /** The lines that can be seen, the last `rows` of all. */
  get lines(): string[] {
    return this.#visible.map((cells) =>
      Array.from(cells, (cell) => (cell ?? BLANK).text)
        .join("")
        .trimEnd(),
    );
  }

  get text(): string {
    return this.lines.join("\n").trimEnd();
  }

  /** The styles of a text where it stands first. */
  styleOf(text: string): string | undefined {
    const row = this.lines.findIndex((line) => line.includes(text));
    return this.#visible[row]?.[[...((this.lines[row] ?? "").split(text)[0] ?? "")].length]?.style;
  }

  /** The screen as black (true) and white pixels, two of them one above the other in each place; what has no color of its own is a dark terminal. */
  get pixels(): boolean[][] {
    return this.#visible.flatMap((cells) => {
      const places = Array.from({ length: this.#size.columns }, (_, column) => cells[column] ?? BLANK);
      return ["█▀", "█▄"].map((full) => places.map(({ text, style }) => (style.includes("48;5;231") ? full.includes(text) : true)));
    });
  }

  get #visible(): Cell[][] {
    return this.#rows.slice(-this.#size.rows);
  }

  #put(char: string): void {
    if (char === "\n") return this.#down();
    if (char === "\r") return void (this.#column = 0);
    if (/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u.test(char)) throw new Error(`a terminal obeys ${JSON.stringify(char)}`);
    if (this.#column === this.#size.columns) {
      this.#column = 0;
      this.#down();
    }
    const cells = this.#rows[this.#row];
    if (cells !== undefined) cells[this.#column++] = { text: char, style: this.#style };
  }

  #down(): void {
    this.#row++;
    this.#rows[this.#row] ??= [];
  }

  #obey(command: string, parameters: string): void {
    const count = parameters === "" ? 1 : Number(parameters);
    const cells = this.#rows[this.#row] ?? [];
    switch (command) {
      case "m":
        this.#style = /^(?:0|39|22|24|)$/.test(parameters) ? "" : parameters;
        return;
      case "K":
        return void cells.splice(this.#column);
      case "J":
        cells.splice(this.#column);
        return void this.#rows.splice(this.#row + 1);
      case "A":
        return void (this.#row = Math.max(0, this.#row - count));
      case "G":
        return void (this.#column = count - 1);
      case "C":
        return void (this.#column += count);
      case "D":
        return void (this.#column = Math.max(0, this.#column - count));
      default:
        throw new Error(`an unknown command of a terminal: ${command}`);
    }
  }
}
