import { AsyncLocalStorage } from 'node:async_hooks'
import crypto from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { syncBuiltinESMExports } from 'node:module'
import { Writable } from 'node:stream'

/** What a function of the user's does that a second call does again, or answers differently. */
export type Reach = 'clock' | 'chance' | 'outside'

/** Who is told, while a function of the user's runs and in everything that it starts. */
export interface TrapFrame {
  /** What the clock answers there, milliseconds since the epoch. */
  now(): number
  /** What `Math.random` answers there. */
  random(): number
  note(reach: Reach, what: string): void
}

/** Follows the user's function into its promises and timers: what it starts belongs to it. */
const frames = new AsyncLocalStorage<TrapFrame>()

type Undo = () => void
type Call = (...parameters: unknown[]) => unknown

/** Puts another function in the place of `target[key]`. */
function replace(target: object, key: string, make: (real: Call) => unknown): Undo {
  const own = Object.getOwnPropertyDescriptor(target, key)
  const value = make(Reflect.get(target, key) as Call)
  Object.defineProperty(target, key, { value, configurable: true, writable: true, enumerable: own?.enumerable ?? true })
  return () => {
    if (own) Object.defineProperty(target, key, own)
    else Reflect.deleteProperty(target, key)
  }
}

/**
 * A proxy and not a subclass: dates made before and after are of one class for `instanceof`. Only `new Date()`, `Date()`
 * and `Date.now()` ask the clock; with arguments nothing is noted.
 */
function trapDate(real: Call): unknown {
  const asked = (what: string): number | undefined => {
    const frame = frames.getStore()
    frame?.note('clock', what)
    return frame?.now()
  }
  return new Proxy(real as unknown as DateConstructor, {
    construct(target, given, newTarget) {
      const now = given.length === 0 ? asked('new Date()') : undefined
      return Reflect.construct(target, now === undefined ? given : [now], newTarget) as object
    },
    apply(target) {
      const now = asked('Date()')
      return now === undefined ? Reflect.apply(target, undefined, []) : String(Reflect.construct(target, [now]))
    },
    get(target, key) {
      if (key !== 'now') return Reflect.get(target, key) as unknown
      return () => asked('Date.now()') ?? (Reflect.get(target, key) as Call)()
    },
  })
}

function trapChance(what: string) {
  return (real: Call): Call =>
    function (this: unknown, ...given) {
      const frame = frames.getStore()
      frame?.note('chance', what)
      return frame && what === 'Math.random()' ? frame.random() : Reflect.apply(real, this, given)
    }
}

/** A request that goes nowhere: it takes what is written to it. */
function nowhere(): object {
  const nothing = () => undefined
  const request = new Writable({ write: (_chunk, _encoding, done) => done() })
  const names = [
    'setHeader',
    'getHeader',
    'removeHeader',
    'setTimeout',
    'setNoDelay',
    'setSocketKeepAlive',
    'flushHeaders',
    'abort',
  ]
  return Object.assign(request, Object.fromEntries(names.map((name) => [name, nothing])))
}

/** Nothing leaves a function of the user's: the call is counted, and is never answered. */
function trapOutside(what: string, answer: () => unknown) {
  return (real: Call): Call =>
    function (this: unknown, ...given) {
      const frame = frames.getStore()
      if (!frame) return Reflect.apply(real, this, given)
      frame.note('outside', what)
      return answer()
    }
}

function install(): Undo {
  const never = () => new Promise(() => {})
  const undo = [
    replace(globalThis, 'Date', trapDate),
    replace(Math, 'random', trapChance('Math.random()')),
    replace(globalThis.crypto, 'randomUUID', trapChance('crypto.randomUUID()')),
    replace(crypto, 'randomUUID', trapChance('crypto.randomUUID()')),
    replace(globalThis, 'fetch', trapOutside('fetch', never)),
    ...['request', 'get'].flatMap((name) => [
      replace(http, name, trapOutside(`http.${name}`, nowhere)),
      replace(https, name, trapOutside(`https.${name}`, nowhere)),
    ]),
  ]
  // Named imports of built-in modules see the change as well.
  syncBuiltinESMExports()
  return () => {
    for (const one of undo.reverse()) one()
    syncBuiltinESMExports()
  }
}

let users = 0
let uninstall: Undo = () => {}

/**
 * Watches the globals while `work` runs. Code that no frame is open for sees the real ones. Several runs at once share
 * the traps; the last one takes them away.
 */
export async function withTraps<T>(work: () => Promise<T>): Promise<T> {
  if (users === 0) uninstall = install()
  users += 1
  try {
    return await work()
  } finally {
    users -= 1
    if (users === 0) uninstall()
  }
}

/** Runs a function of the user's inside a frame. */
export function inFrame<T>(frame: TrapFrame, work: () => T): T {
  return frames.run(frame, work)
}
