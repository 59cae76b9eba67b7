from absl import app, flags

from scores import lib

FLAGS = flags.FLAGS
flags.DEFINE_integer("iterations", 6, "Steps of training.")
flags.DEFINE_string("workdir", "scores_out", "Where checkpoints go.")
flags.DEFINE_enum("mode", "train", ["train", "sample"], "What to do.")


def main(argv):
    if FLAGS.mode == "train":
        lib.train(FLAGS.iterations, FLAGS.workdir)
    else:
        lib.sample(FLAGS.workdir)


if __name__ == "__main__":
    app.run(main)
