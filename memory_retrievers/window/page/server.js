// What the page asks of its server, and what becomes of an answer that is none.

/** The server refused: `message` is a sentence for people. */
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Nothing answers at all: it was stopped, or is not there yet. */
export class Lost extends Error {
  constructor() {
    super("The program behind this page does not answer. It is asked again until it does; if you have ended it, start memory-retrievers ui again and open the address that it prints.");
  }
}

const SIGNED_OUT = "This page is not signed in any more: the program was started again, or its address was opened elsewhere. Open the address that memory-retrievers ui has printed.";
const PATIENCE = 1000; // milliseconds between two attempts

/** Ask for something; parameters that are null, undefined or "" are left out. */
export function ask(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.append(name, value);
  }
  const asked = query.toString();
  return answered(asked ? `/api/${path}?${asked}` : `/api/${path}`, { signal });
}

/** Send a question or a change that is more than an address holds. */
export function send(path, body, signal = undefined) {
  const headers = { "Content-Type": "application/json" };
  return answered(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function answered(address, options) {
  let response;
  let body;
  try {
    response = await fetch(address, { credentials: "same-origin", cache: "no-store", ...options });
    body = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Lost();
  }
  const value = parsed(body);
  if (response.ok && value !== null) return value;
  if (response.status === 401) throw new Refused(401, "SignedOut", SIGNED_OUT);
  const message = value?.message ?? `The server answered with ${response.status}.`;
  throw new Refused(response.status, String(value?.error_type ?? ""), String(message));
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

/** Whether the same question may be answered in a moment: the server is away, or the store is locked. */
export function passes(error) {
  return error instanceof Lost || (error instanceof Refused && error.status === 503);
}

/**
 * Do `work` until it succeeds or fails for good; `told` gets each error that may pass.
 * An `AbortSignal` ends it with an AbortError.
 */
export async function persistently(work, told, signal) {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!passes(error) || signal?.aborted) throw error;
      told(error);
      await pause(PATIENCE, signal);
    }
  }
}

/** Wait; an `AbortSignal` ends it with an AbortError. */
export function pause(milliseconds, signal = undefined) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, { once: true });
  });
}
