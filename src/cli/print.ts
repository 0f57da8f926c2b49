/** Writes one line, or many, for a person or a pipe. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
