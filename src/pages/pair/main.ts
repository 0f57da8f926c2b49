import { element, setText } from "../shell/dom.ts";
import { PairPage } from "./pair-page.ts";

/** The storage, or null if the browser forbids it: then even reading `localStorage` throws. */
function allowed(storage: () => Storage): Storage | null {
  try {
    return storage();
  } catch {
    return null;
  }
}

setText(element("host", HTMLElement), location.host);
const page = new PairPage({
  origin: location.origin,
  store: allowed(() => localStorage),
  session: allowed(() => sessionStorage),
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") page.returned();
});
window.addEventListener("online", () => page.returned());
page.start();
