/**
 * Makes a base URL of what a person writes: `127.0.0.1:8080`, `http://host:8080/` and `http://host:8080/v1/` mean the same. Undefined if it is
 * no http(s) URL, or one with a password in it (fetch refuses those; a key belongs in LLM_API_KEY).
 */
export function baseUrlOf(text: string): string | undefined {
  const url = parse(text);
  if (url === undefined) return undefined;
  const path = url.pathname.replace(/\/+$/, "");
  return `${url.origin}${path === "" ? "/v1" : path}`;
}

/**
 * Makes a base URL of OLLAMA_HOST, which is the address Ollama's server binds: port 11434 unless said, or that of a scheme, and an address that
 * means "all interfaces" is reached at 127.0.0.1. Source: `envconfig.Host` in Ollama.
 */
export function baseUrlOfOllamaHost(text: string): string | undefined {
  const url = parse(text);
  if (url === undefined) return undefined;
  if (["0.0.0.0", "[::]"].includes(url.hostname)) url.hostname = "127.0.0.1";
  const portSaid = url.port !== "" || /^https?:\/\//i.test(text.trim());
  if (!portSaid) url.port = "11434";
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}/v1`;
}

function parse(text: string): URL | undefined {
  const trimmed = text.trim();
  const withHost = trimmed.startsWith(":") ? `127.0.0.1${trimmed}` : trimmed;
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(withHost) ? withHost : `http://${withHost}`;
  const url = URL.canParse(whole) ? new URL(whole) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return undefined;
  return url;
}
