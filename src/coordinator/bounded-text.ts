/** The body of an answer as text; null when it is longer than `most` bytes, of which then no more is read. @throws what the body's stream throws */
export async function boundedText(response: Response, most: number): Promise<string | null> {
  const utf8 = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > most) return null;
    text += utf8.decode(chunk, { stream: true });
  }
  return text + utf8.decode();
}
