import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

/** Who holds a lease, as its row says it. */
export interface Identity {
  /** Name of the host, for people. */
  readonly host: string
  /** Tells machines, boots and containers apart: a process id means something only within one. */
  readonly machine: string
  readonly pid: number
  /** When the process started, in the machine's own units; '' where it cannot be told. A reused id has another one. */
  readonly started: string
}

/** Reads a text of the operating system; '' where it has none. */
export type ReadText = (path: string) => string

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return ''
  }
}

function pidNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return ''
  }
}

/**
 * State and start time of a process from `/proc/<pid>/stat`: fields 3 and 22. The name in field 2 stands in brackets and
 * may hold spaces and brackets itself, so fields are counted from the last one.
 */
function statOf(pid: number, read: ReadText): { state: string; started: string } | null {
  const fields = read(`/proc/${pid}/stat`).split(')').at(-1)?.trim().split(' ') ?? []
  const [state = ''] = fields
  return state === '' ? null : { state, started: fields[19] ?? '' }
}

/** Columns of both stores are wider than what comes of it. */
const LONGEST_HOST = 180

/** This process. */
export function ownIdentity(read: ReadText = readText): Identity {
  const host = hostname().slice(0, LONGEST_HOST)
  const machine = [host, read('/proc/sys/kernel/random/boot_id'), pidNamespace()].join(' ')
  return { host, machine, pid: process.pid, started: statOf(process.pid, read)?.started ?? '' }
}

function answersSignals(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it is there, and somebody else's.
    return (error as { code?: unknown }).code !== 'ESRCH'
  }
}

/**
 * Whether a holder is known to be dead: on this machine, in this boot and container, and no process with its id and start
 * time is running. A process that has ended and waits for its parent (zombie) is dead: its sockets are closed.
 */
export function isKnownDead(holder: Identity, own: Identity, read: ReadText = readText): boolean {
  if (holder.machine !== own.machine) return false
  if (holder.started === '') return !answersSignals(holder.pid)
  const stat = statOf(holder.pid, read)
  return stat === null || stat.started !== holder.started || stat.state === 'Z' || stat.state === 'X'
}
