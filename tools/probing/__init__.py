"""Every public class of a Keras in small trainings under each strategy, and what was and was not run."""
