import { existsSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { ENTRIES, program } from './program.ts'
import { root } from './tree.ts'

/** Each public name of an entry, sorted, with what it is: `value`, `type`, or both. */
type Surface = Readonly<Record<string, 'value' | 'type' | 'value and type'>>

function kindOf(checker: ts.TypeChecker, symbol: ts.Symbol): Surface[string] {
  const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
  const value = (target.flags & ts.SymbolFlags.Value) !== 0
  const type = (target.flags & ts.SymbolFlags.Type) !== 0
  return value && type ? 'value and type' : value ? 'value' : 'type'
}

/** The public names of the entries that exist, by the name under which they are imported. */
export function publicSurface(): Record<string, Surface> {
  const entries = Object.entries(ENTRIES).filter(([, path]) => existsSync(join(root, path)))
  const whole = program(entries.map(([, path]) => join(root, path)))
  const checker = whole.getTypeChecker()
  return Object.fromEntries(
    entries.map(([name, path]) => {
      const module = whole.getSourceFile(join(root, path))
      const symbol = module && checker.getSymbolAtLocation(module)
      const names = symbol ? checker.getExportsOfModule(symbol) : []
      const pairs = names.map((found) => [found.name, kindOf(checker, found)] as const)
      return [name, Object.fromEntries(pairs.sort(([a], [b]) => (a < b ? -1 : 1)))]
    }),
  )
}
