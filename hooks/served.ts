/** Which namespaces this installation looks after; in others its service has no rights. */
import type { Settings } from './protocol.ts'

export function serves({ namespaces }: Pick<Settings, 'namespaces'>, namespace: string): boolean {
  return namespaces.length === 0 || namespaces.includes(namespace)
}

/** What is said of something in a namespace that is not served: nobody here can read or call it. */
export function notServed(called: string): string {
  return `${called} is in a namespace that this operator does not serve`
}
