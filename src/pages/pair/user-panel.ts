// The panel of the pair page that makes, shows and keeps the user id and its token.
import { copyOnClick, element, keepFocus, setText, showMessage } from "../shell/dom.ts";
import type { Result } from "../../protocol/result.ts";
import { randomSecret, type User } from "./stored.ts";

/** What is wrong with a user id, or with its token. */
export type UserFault = { text: string; isToken: boolean };

/** Uses a user from now on. Gives whether the browser stores it, or what is wrong with its id or token. */
export type OnUse = (user: User) => Result<{ isStored: boolean }, UserFault>;

/** The form for the user id and the optional token that protects it. */
export class UserPanel {
  readonly #details = element("you", HTMLDetailsElement);
  readonly #id = element("user-id", HTMLInputElement);
  readonly #guarded = element("guarded", HTMLInputElement);
  readonly #tokenRow = element("token-row", HTMLElement);
  readonly #token = element("user-token", HTMLInputElement);
  readonly #make = element("make-id", HTMLButtonElement);
  readonly #show = element("show-secrets", HTMLButtonElement);
  readonly #copy = element("copy-id", HTMLButtonElement);
  readonly #copyToken = element("copy-token", HTMLButtonElement);
  readonly #use = element("use-id", HTMLButtonElement);
  readonly #result = element("user-result", HTMLElement);
  readonly #onUse: OnUse;
  readonly #follow: () => boolean;
  #used: User | null = null;
  /** False if the browser does not store the user that is in use. */
  #isStored = true;

  /** `follow` looks if another tab has stored a user since, calls `followed` with it and returns true. */
  constructor(onUse: OnUse, follow: () => boolean) {
    this.#onUse = onUse;
    this.#follow = follow;
    for (const box of [this.#id, this.#token]) box.addEventListener("input", () => this.#changed());
    this.#guarded.addEventListener("change", () => {
      this.#tokenRow.hidden = !this.#guarded.checked;
      if (this.#guarded.checked && this.#token.value === "") this.#token.value = randomSecret();
      this.#changed();
    });
    this.#make.addEventListener("click", () => {
      if (this.#follow()) return;
      this.#id.value = randomSecret();
      if (this.#guarded.checked) this.#token.value = randomSecret();
      // The first user id is used at once, because it replaces nothing.
      if (this.#used === null) return void this.#take();
      this.#changed();
      this.#use.focus();
    });
    this.#show.addEventListener("click", () => this.#reveal(this.#id.type === "password"));
    copyOnClick(this.#copy, () => this.#id.value);
    copyOnClick(this.#copyToken, () => this.#token.value);
    element("user-form", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      this.#take();
    });
  }

  /** Shows the user of the last visit, or an empty form. */
  start(user: User | null): void {
    this.#used = user;
    this.#fill(user);
    this.#details.open = user === null;
    this.#changed();
  }

  /** Another tab has stored this user, and this tab uses it from now on. An id that a person is entering stays in the form. */
  followed(user: User): void {
    const { userId } = this.#entered();
    const isEntering = userId !== "" && userId !== this.#used?.userId && userId !== user.userId;
    this.#used = user;
    this.#isStored = true;
    if (!isEntering) this.#fill(user);
    this.#details.open = true;
    this.#changed();
    if (!isEntering) this.#say("Another tab has stored this user id in this browser. It is in use here too.", null);
  }

  /** Closes this panel to make room for the code. */
  fold(): void {
    this.#details.open = false;
  }

  /** Uses what the form shows, as "Use this" does. False if that is not possible: then the form says why. */
  settle(): boolean {
    if (this.#follow()) return false;
    if (this.#lacksToken()) {
      this.#details.open = true;
      this.#say("Enter a token, or switch its protection off.", "bad", this.#token);
      this.#token.focus();
      return false;
    }
    return this.#use.disabled || this.#take();
  }

  /** Says that the token protects nothing. */
  warn(): void {
    this.#details.open = true;
    this.#say("The token has no effect, because the first code of this user id was made without one. A new user id can have a token.", "bad", this.#token);
  }

  /** Opens the field of the token, because the token is missing. */
  askToken(): void {
    this.#details.open = true;
    this.#guarded.checked = true;
    this.#tokenRow.hidden = false;
    this.#changed();
    this.#token.focus();
  }

  /** Says that the token is wrong. A person who has pressed a button that needs the token gets the focus in its field. */
  refuseToken(isPressed: boolean): void {
    this.#details.open = true;
    this.#say("This is not the token of this user id.", "bad", this.#token);
    if (isPressed) this.#token.focus();
  }

  #fill(user: User | null): void {
    this.#id.value = user?.userId ?? "";
    this.#token.value = user?.userToken ?? "";
    this.#guarded.checked = user?.userToken != null;
    this.#tokenRow.hidden = !this.#guarded.checked;
  }

  /** False if the user cannot be used, or if another tab has stored one that it would replace without a warning. */
  #take(): boolean {
    if (this.#follow()) return false;
    const user = this.#entered();
    const use = this.#onUse(user);
    if (!use.ok) {
      const about = use.reason.isToken ? this.#token : this.#id;
      this.#say(use.reason.text, "bad", about);
      about.focus();
      return false;
    }
    this.#used = user;
    this.#isStored = use.value.isStored;
    const moveFocus = keepFocus(this.#use);
    this.#changed();
    if (this.#isStored) this.#say("In use, and stored in this browser.", "good");
    else this.#say("In use until this page is closed, because this browser does not store it. Copy your user id now.", null);
    moveFocus(this.#result);
    return true;
  }

  /** Without its token the user id would not be protected, though the switch says so. */
  #lacksToken(): boolean {
    return this.#guarded.checked && this.#token.value === "";
  }

  #entered(): User {
    return { userId: this.#id.value.trim(), userToken: this.#guarded.checked && this.#token.value !== "" ? this.#token.value : null };
  }

  #changed(): void {
    const { userId, userToken } = this.#entered();
    this.#use.disabled = userId === "" || this.#lacksToken() || (userId === this.#used?.userId && userToken === this.#used.userToken);
    const isFirst = this.#used === null;
    this.#make.className = isFirst ? "primary" : "quiet";
    setText(this.#make, isFirst ? "Make one" : "Make a new one");
    this.#show.hidden = isFirst && userId === "" && !this.#guarded.checked;
    this.#copy.hidden = !isSecureContext || isFirst;
    this.#copyToken.hidden = !isSecureContext || this.#token.value === "";
    setText(element("you-state", HTMLElement), this.#used === null ? "needed" : this.#isStored ? "stored in this browser" : "not stored");
    if (this.#used !== null && userId !== this.#used.userId && userId !== "")
      this.#say("Another user id has other paired workers. Save the current one if you may need its pairings again.", null);
    else this.#say("", null);
  }

  #reveal(isShown: boolean): void {
    this.#id.type = this.#token.type = isShown ? "text" : "password";
    setText(this.#show, isShown ? "Hide" : "Show");
    this.#show.setAttribute("aria-pressed", String(isShown));
  }

  /** A bad message is about one of the fields. */
  #say(text: string, tone: "good" | "bad" | null, about: HTMLInputElement = this.#id): void {
    showMessage(this.#result, text, tone);
    for (const field of [this.#id, this.#token]) field.setAttribute("aria-invalid", String(tone === "bad" && field === about));
  }
}
