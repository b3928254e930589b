/** Related kinds by the plural a customize hook names. */
export const PLURALS_OF: Record<string, string> = {
  vecclusters: 'VecCluster',
  vecbackups: 'VecBackup',
  statefulsets: 'StatefulSet',
}
