/** A copy of a plain object that remembers which of its keys were read. */
export interface TrackedReads<T> {
  readonly value: T
  /** Paths that were read so far, joined with slashes (a name may hold a dot). */
  readonly reads: ReadonlySet<string>
}

type Branch = Readonly<Record<string, unknown>>

function join(path: string, key: string): string {
  return path === '' ? key : `${path}/${key}`
}

function copy(value: Branch, path: string, reads: Set<string>, isBranch: IsBranch): Branch {
  const result = {}
  for (const key of Object.keys(value)) {
    const at = join(path, key)
    const child = value[key]
    const inner = isBranch(at, child) ? copy(child as Branch, at, reads, isBranch) : child
    // A getter, not a Proxy: spreading and Object.entries count as reads too, and the cost of a read stays that of a call.
    Object.defineProperty(result, key, {
      enumerable: true,
      get: () => {
        reads.add(at)
        return inner
      },
    })
  }
  return result
}

/** Whether the value at a path is followed into; anything else (a store, a watcher, a list) is passed on as it is. */
export type IsBranch = (path: string, value: unknown) => boolean

export function trackObject<T extends object>(value: T, isBranch: IsBranch): TrackedReads<T> {
  const reads = new Set<string>()
  return { value: copy(value as Branch, '', reads, isBranch) as T, reads }
}

/** The shortest beginning of each path that was never read: `chains/base` rather than its five settings. */
export function unreadOf(paths: readonly string[], reads: ReadonlySet<string>): string[] {
  const unread = new Set<string>()
  for (const path of paths) {
    const parts = path.split('/')
    const prefixes = parts.map((_, i) => parts.slice(0, i + 1).join('/'))
    const first = prefixes.find((prefix) => !reads.has(prefix))
    if (first !== undefined) unread.add(first)
  }
  return [...unread].sort()
}
