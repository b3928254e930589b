/** The tour, VecCluster: made, raised by a version, and deleted at the very end. */
import { deleteSample, GONE, referenceOf, sampleOf, type Step } from './step.ts'

export const CLUSTER_STEPS: Step[] = [
  {
    says: 'A VecCluster is made. A Job runs helm; the StatefulSet and its pods follow.',
    types: 'apply -f docs/samples/cluster.yaml',
    sample: 'cluster',
    act: (context) => context.world.apply(sampleOf(context, 'cluster')),
    phases: ['Pending', 'Running'],
    seconds: 600,
  },
  {
    says: 'Its spec.version is raised, 1.18.2 to 1.18.3. Another helm run, and pod after pod is replaced.',
    types: 'edit veccluster docs',
    sample: 'cluster',
    act: (context) =>
      context.world.patch(referenceOf(sampleOf(context, 'cluster')), {
        spec: { version: context.world.versions.newer },
      }),
    phases: ['Upgrading', 'Running'],
    seconds: 600,
  },
]

export const CLUSTER_END: Step[] = [
  {
    says: 'The VecCluster is deleted. A last Job uninstalls the release; the volumes are kept.',
    types: 'delete veccluster docs',
    sample: 'cluster',
    act: (context) => deleteSample(context, 'cluster'),
    phases: [GONE],
    seconds: 600,
  },
]
